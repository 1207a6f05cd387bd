-- What may never change, refused by the database itself (a determined editor can drop a trigger: verify notices).
CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'append-only: entry'); END;
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'append-only: entry'); END;
CREATE TRIGGER entry_dense BEFORE INSERT ON entry
  WHEN NEW.seq <> 1 + coalesce((SELECT max(seq) FROM entry), 0)
  BEGIN SELECT RAISE(ABORT, 'append-only: entry is not dense'); END;

CREATE TRIGGER line_no_update BEFORE UPDATE ON line BEGIN SELECT RAISE(ABORT, 'append-only: line'); END;
CREATE TRIGGER line_no_delete BEFORE DELETE ON line BEGIN SELECT RAISE(ABORT, 'append-only: line'); END;
CREATE TRIGGER answer_no_update BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'append-only: answer'); END;
CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer BEGIN SELECT RAISE(ABORT, 'append-only: answer'); END;
CREATE TRIGGER dataset_no_update BEFORE UPDATE ON dataset BEGIN SELECT RAISE(ABORT, 'append-only: dataset'); END;
CREATE TRIGGER dataset_no_delete BEFORE DELETE ON dataset BEGIN SELECT RAISE(ABORT, 'append-only: dataset'); END;

CREATE TRIGGER charge_no_delete BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'append-only: charge'); END;
CREATE TRIGGER charge_fixed BEFORE UPDATE OF id, principal, key, request ON charge
  BEGIN SELECT RAISE(ABORT, 'append-only: charge'); END;
CREATE TRIGGER charge_transition BEFORE UPDATE OF state ON charge
  WHEN NOT (OLD.state = 'RESERVED' AND NEW.state IN ('RESERVED', 'EXECUTING', 'REFUNDED')
         OR OLD.state = 'EXECUTING' AND NEW.state IN ('EXECUTING', 'COMMITTED', 'BURNED'))
  BEGIN SELECT RAISE(ABORT, 'append-only: charge state'); END;

CREATE TRIGGER account_no_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'append-only: account'); END;
CREATE TRIGGER account_fixed
  BEFORE UPDATE OF id, name, parent_id, partition_name, kind, filter, unit, adjacency, milestones ON account
  BEGIN SELECT RAISE(ABORT, 'append-only: account'); END;
CREATE TRIGGER account_limit BEFORE UPDATE OF limit0, limit1 ON account
  WHEN NEW.limit0 < OLD.limit0 OR NEW.limit1 < OLD.limit1
  BEGIN SELECT RAISE(ABORT, 'append-only: a limit only rises'); END;

CREATE TRIGGER quarantine_no_delete BEFORE DELETE ON quarantine BEGIN SELECT RAISE(ABORT, 'append-only: quarantine'); END;
CREATE TRIGGER quarantine_fixed BEFORE UPDATE ON quarantine
  WHEN OLD.cleared IS NOT NULL OR NEW.charge_id <> OLD.charge_id OR NEW.population_id <> OLD.population_id
    OR NEW.source <> OLD.source
  BEGIN SELECT RAISE(ABORT, 'append-only: quarantine'); END;
