-- What the answer to a refused call said of a wrong parameter.
ALTER TABLE refused_call ADD COLUMN said VARCHAR;
