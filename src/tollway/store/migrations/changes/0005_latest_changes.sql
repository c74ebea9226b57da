-- Which accounts the latest changes of the directory were about.
ALTER TABLE version ADD COLUMN latest_changes VARCHAR DEFAULT '' NOT NULL;
