-- What one person did; the tokens that people made; the members of an account who are present;
-- second factors in the order of their list.
CREATE INDEX operator_act_by ON operator_act ("by", number);
CREATE INDEX token_made ON token (account_id) WHERE client_id IS NULL;
CREATE INDEX person_member ON person (account_id) WHERE removed_at_s IS NULL;
CREATE INDEX second_factor_login ON second_factor (login, kind);
