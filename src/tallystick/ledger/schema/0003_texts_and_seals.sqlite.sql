-- Format 3. Texts and tags are beside the chain, so that they can be erased; seals and checkpoints show who wrote.
CREATE TABLE entry_text (
  entry INTEGER NOT NULL REFERENCES entry (seq),
  field TEXT NOT NULL,
  salt  TEXT NOT NULL CHECK (length(salt) = 32),
  body  TEXT NOT NULL,
  PRIMARY KEY (entry, field)
) STRICT, WITHOUT ROWID;

-- Finds the charge of a key or of a question. A refunded or erased charge has no tags.
CREATE TABLE tag (
  charge_id   INTEGER PRIMARY KEY REFERENCES charge (id),
  key_tag     TEXT NOT NULL UNIQUE CHECK (length(key_tag) = 64),
  stem_tag    TEXT NOT NULL CHECK (length(stem_tag) = 64),
  request_tag TEXT NOT NULL CHECK (length(request_tag) = 64)
) STRICT;
CREATE INDEX tag_stem ON tag (stem_tag);
CREATE INDEX tag_request ON tag (request_tag);

-- The key of the tags, and the entry after which texts are commitments.
CREATE TABLE secret (
  since INTEGER PRIMARY KEY REFERENCES entry (seq),
  body  TEXT NOT NULL CHECK (length(body) = 64)
) STRICT;

-- One signature for each transaction of a governed ledger: it covers all entries up to seq.
CREATE TABLE seal (
  seq       INTEGER PRIMARY KEY REFERENCES entry (seq),
  key       TEXT NOT NULL CHECK (length(key) = 64),
  signature TEXT NOT NULL CHECK (length(signature) = 128)
) STRICT;

-- The state after an entry, signed: verification can begin there.
CREATE TABLE checkpoint (
  seq       INTEGER PRIMARY KEY REFERENCES entry (seq),
  body      TEXT NOT NULL,
  key       TEXT NOT NULL CHECK (length(key) = 64),
  signature TEXT NOT NULL CHECK (length(signature) = 128)
) STRICT;

-- The chain holds a commitment to each answer; the answers of format 2 have a digest there and no salt.
ALTER TABLE answer ADD COLUMN salt TEXT CHECK (length(salt) = 32);

-- The failure that closed the data. Charges that ran at that time have rows, too: their outcomes are withheld.
ALTER TABLE quarantine ADD COLUMN cause INTEGER;

CREATE INDEX line_account ON line (account_id, charge_id);
CREATE INDEX charge_request ON charge (principal, request);

DROP TRIGGER answer_no_delete;
CREATE TRIGGER entry_text_no_update BEFORE UPDATE ON entry_text BEGIN SELECT RAISE(ABORT, 'append-only: entry_text'); END;
CREATE TRIGGER tag_no_update BEFORE UPDATE ON tag BEGIN SELECT RAISE(ABORT, 'append-only: tag'); END;
CREATE TRIGGER secret_no_update BEFORE UPDATE ON secret BEGIN SELECT RAISE(ABORT, 'append-only: secret'); END;
CREATE TRIGGER secret_no_delete BEFORE DELETE ON secret BEGIN SELECT RAISE(ABORT, 'append-only: secret'); END;
CREATE TRIGGER seal_no_update BEFORE UPDATE ON seal BEGIN SELECT RAISE(ABORT, 'append-only: seal'); END;
CREATE TRIGGER seal_no_delete BEFORE DELETE ON seal BEGIN SELECT RAISE(ABORT, 'append-only: seal'); END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON checkpoint BEGIN SELECT RAISE(ABORT, 'append-only: checkpoint'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'append-only: checkpoint'); END;
