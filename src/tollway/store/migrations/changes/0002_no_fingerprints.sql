-- The sealed print data of a waybill shows whether a request is the same.
ALTER TABLE waybill DROP COLUMN fingerprints;
