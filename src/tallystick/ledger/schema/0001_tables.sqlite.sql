-- The record. Every table except entry is a projection of entry and can be rebuilt by replaying it.
CREATE TABLE migration (
  version INTEGER PRIMARY KEY,
  name    TEXT NOT NULL
) STRICT;

CREATE TABLE entry (
  seq  INTEGER PRIMARY KEY CHECK (seq >= 1),
  hash TEXT NOT NULL CHECK (length(hash) = 64),
  body TEXT NOT NULL
) STRICT;

-- A population (root) or one of its children. team, analyst and owner are room for the service.
CREATE TABLE account (
  id             INTEGER PRIMARY KEY,
  name           TEXT NOT NULL UNIQUE,
  parent_id      INTEGER REFERENCES account (id),
  partition_name TEXT,
  kind           TEXT NOT NULL CHECK (kind IN ('population', 'block', 'team', 'analyst')),
  filter         TEXT NOT NULL CHECK (filter IN ('zcdp', 'approx', 'gdp') OR filter LIKE 'rdp@%'),
  unit           TEXT NOT NULL,
  adjacency      TEXT NOT NULL CHECK (adjacency IN ('add_remove', 'replace')),
  milestones     TEXT NOT NULL,
  owner          TEXT,
  limit0         INTEGER NOT NULL CHECK (limit0 BETWEEN 1 AND 4611686018427387903),
  limit1         INTEGER NOT NULL CHECK (limit1 BETWEEN 0 AND 999999999999999999),
  own0           INTEGER NOT NULL DEFAULT 0 CHECK (own0 >= 0),
  own1           INTEGER NOT NULL DEFAULT 0 CHECK (own1 >= 0),
  used0          INTEGER NOT NULL DEFAULT 0 CHECK (used0 BETWEEN own0 AND limit0),
  used1          INTEGER NOT NULL DEFAULT 0 CHECK (used1 BETWEEN own1 AND limit1),
  raises         INTEGER NOT NULL DEFAULT 0 CHECK (raises >= 0),
  state          TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed'))
) STRICT;
CREATE INDEX account_parent ON account (parent_id);

-- Registered data sets: one row per registration, the newest of a name counts. source is a digest; note is public.
CREATE TABLE dataset (
  name          TEXT NOT NULL,
  seq           INTEGER NOT NULL,
  account_id    INTEGER NOT NULL REFERENCES account (id),
  population_id INTEGER NOT NULL REFERENCES account (id),
  source        TEXT CHECK (length(source) = 64),
  least0        INTEGER NOT NULL CHECK (least0 BETWEEN 1 AND 4611686018427387903),
  note          TEXT NOT NULL,
  PRIMARY KEY (name, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX dataset_source ON dataset (source);
CREATE INDEX dataset_population ON dataset (population_id);

-- A charge's id is the position of the entry that reserved it; last_seq is the entry that last moved it.
CREATE TABLE charge (
  id          INTEGER PRIMARY KEY,
  principal   TEXT NOT NULL,
  key         TEXT NOT NULL,
  request     TEXT NOT NULL CHECK (length(request) = 64),
  state       TEXT NOT NULL CHECK (state IN ('RESERVED', 'EXECUTING', 'COMMITTED', 'REFUNDED', 'BURNED')),
  fence       INTEGER NOT NULL CHECK (fence >= 1),
  lease_until INTEGER NOT NULL,
  last_seq    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX charge_key ON charge (principal, key) WHERE state <> 'REFUNDED';
CREATE INDEX charge_open ON charge (lease_until) WHERE state IN ('RESERVED', 'EXECUTING');

CREATE TABLE line (
  charge_id  INTEGER NOT NULL REFERENCES charge (id),
  account_id INTEGER NOT NULL REFERENCES account (id),
  a0         INTEGER NOT NULL CHECK (a0 BETWEEN 0 AND 4611686018427387903),
  a1         INTEGER NOT NULL CHECK (a1 BETWEEN 0 AND 4611686018427387903),
  PRIMARY KEY (charge_id, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
  charge_id INTEGER PRIMARY KEY REFERENCES charge (id),
  body      TEXT NOT NULL
) STRICT;

-- A charge that failed after its start closes its source and its populations until an entry clears it.
CREATE TABLE quarantine (
  charge_id     INTEGER NOT NULL REFERENCES charge (id),
  population_id INTEGER NOT NULL REFERENCES account (id),
  source        TEXT NOT NULL CHECK (length(source) = 64),
  cleared       INTEGER,
  PRIMARY KEY (charge_id, population_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX quarantine_open ON quarantine (population_id, source) WHERE cleared IS NULL;
