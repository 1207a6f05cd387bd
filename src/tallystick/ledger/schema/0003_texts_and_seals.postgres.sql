-- Format 3. Texts and tags are beside the chain, so that they can be erased; seals and checkpoints show who wrote.
CREATE TABLE entry_text (
  entry BIGINT NOT NULL REFERENCES entry (seq),
  field TEXT NOT NULL,
  salt  TEXT NOT NULL CHECK (length(salt) = 32),
  body  TEXT NOT NULL,
  PRIMARY KEY (entry, field)
);

-- Finds the charge of a key or of a question. A refunded or erased charge has no tags.
CREATE TABLE tag (
  charge_id   BIGINT PRIMARY KEY REFERENCES charge (id),
  key_tag     TEXT NOT NULL UNIQUE CHECK (length(key_tag) = 64),
  stem_tag    TEXT NOT NULL CHECK (length(stem_tag) = 64),
  request_tag TEXT NOT NULL CHECK (length(request_tag) = 64)
);
CREATE INDEX tag_stem ON tag (stem_tag);
CREATE INDEX tag_request ON tag (request_tag);

-- The key of the tags, and the entry after which texts are commitments.
CREATE TABLE secret (
  since BIGINT PRIMARY KEY REFERENCES entry (seq),
  body  TEXT NOT NULL CHECK (length(body) = 64)
);

-- One signature for each transaction of a governed ledger: it covers all entries up to seq.
CREATE TABLE seal (
  seq       BIGINT PRIMARY KEY REFERENCES entry (seq),
  key       TEXT NOT NULL CHECK (length(key) = 64),
  signature TEXT NOT NULL CHECK (length(signature) = 128)
);

-- The state after an entry, signed: verification can begin there.
CREATE TABLE checkpoint (
  seq       BIGINT PRIMARY KEY REFERENCES entry (seq),
  body      TEXT NOT NULL,
  key       TEXT NOT NULL CHECK (length(key) = 64),
  signature TEXT NOT NULL CHECK (length(signature) = 128)
);

-- The chain holds a commitment to each answer; the answers of format 2 have a digest there and no salt.
ALTER TABLE answer ADD COLUMN salt TEXT CHECK (length(salt) = 32);

-- The failure that closed the data. Charges that ran at that time have rows, too: their outcomes are withheld.
ALTER TABLE quarantine ADD COLUMN cause BIGINT;

-- The server keeps samples of columns, which would outlive the texts that are erased.
ALTER TABLE entry_text ALTER COLUMN salt SET STATISTICS 0, ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE answer ALTER COLUMN salt SET STATISTICS 0, ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE tag ALTER COLUMN key_tag SET STATISTICS 0, ALTER COLUMN stem_tag SET STATISTICS 0,
  ALTER COLUMN request_tag SET STATISTICS 0;

CREATE INDEX line_account ON line (account_id, charge_id);
CREATE INDEX charge_request ON charge (principal, request);

DROP TRIGGER answer_no_change ON answer;
CREATE TRIGGER answer_no_update BEFORE UPDATE ON answer FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER entry_text_no_update BEFORE UPDATE ON entry_text FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER entry_text_no_truncate BEFORE TRUNCATE ON entry_text EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER tag_no_update BEFORE UPDATE ON tag FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER tag_no_truncate BEFORE TRUNCATE ON tag EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER secret_no_change BEFORE UPDATE OR DELETE ON secret FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER secret_no_truncate BEFORE TRUNCATE ON secret EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER seal_no_change BEFORE UPDATE OR DELETE ON seal FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER seal_no_truncate BEFORE TRUNCATE ON seal EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER checkpoint_no_change BEFORE UPDATE OR DELETE ON checkpoint FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER checkpoint_no_truncate BEFORE TRUNCATE ON checkpoint EXECUTE FUNCTION tallystick_refuse();
