-- What one person did; the tokens that people made; second factors in the order of their list.
CREATE INDEX operator_act_by ON operator_act ("by", number);
CREATE INDEX token_made ON token (account_id) WHERE client_id IS NULL;
CREATE INDEX second_factor_login ON second_factor (login, kind);
