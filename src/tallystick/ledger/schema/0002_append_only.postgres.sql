-- What may never change, refused by the database itself (a determined editor can drop a trigger: verify notices).
CREATE FUNCTION tallystick_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'append-only: %', TG_TABLE_NAME; END $$;

CREATE FUNCTION tallystick_entry_dense() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.seq <> 1 + coalesce((SELECT max(seq) FROM entry), 0) THEN
    RAISE EXCEPTION 'append-only: entry is not dense';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION tallystick_charge_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.id, NEW.principal, NEW.key, NEW.request) IS DISTINCT FROM (OLD.id, OLD.principal, OLD.key, OLD.request) THEN
    RAISE EXCEPTION 'append-only: charge';
  END IF;
  IF NOT (OLD.state = 'RESERVED' AND NEW.state IN ('RESERVED', 'EXECUTING', 'REFUNDED')
       OR OLD.state = 'EXECUTING' AND NEW.state IN ('EXECUTING', 'COMMITTED', 'BURNED')) THEN
    RAISE EXCEPTION 'append-only: charge state';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION tallystick_account_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.id, NEW.name, NEW.parent_id, NEW.partition_name, NEW.kind, NEW.filter, NEW.unit, NEW.adjacency, NEW.milestones)
     IS DISTINCT FROM
     (OLD.id, OLD.name, OLD.parent_id, OLD.partition_name, OLD.kind, OLD.filter, OLD.unit, OLD.adjacency, OLD.milestones)
  THEN
    RAISE EXCEPTION 'append-only: account';
  END IF;
  IF NEW.limit0 < OLD.limit0 OR NEW.limit1 < OLD.limit1 THEN
    RAISE EXCEPTION 'append-only: a limit only rises';
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION tallystick_quarantine_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.cleared IS NOT NULL OR (NEW.charge_id, NEW.population_id, NEW.source)
     IS DISTINCT FROM (OLD.charge_id, OLD.population_id, OLD.source) THEN
    RAISE EXCEPTION 'append-only: quarantine';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER entry_no_change BEFORE UPDATE OR DELETE ON entry FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER entry_dense BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION tallystick_entry_dense();
CREATE TRIGGER line_no_change BEFORE UPDATE OR DELETE ON line FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER answer_no_change BEFORE UPDATE OR DELETE ON answer FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER dataset_no_change BEFORE UPDATE OR DELETE ON dataset FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER charge_no_delete BEFORE DELETE ON charge FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER charge_update BEFORE UPDATE ON charge FOR EACH ROW EXECUTE FUNCTION tallystick_charge_update();
CREATE TRIGGER account_no_delete BEFORE DELETE ON account FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER account_update BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION tallystick_account_update();
CREATE TRIGGER entry_no_truncate BEFORE TRUNCATE ON entry EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER charge_no_truncate BEFORE TRUNCATE ON charge EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER line_no_truncate BEFORE TRUNCATE ON line EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER answer_no_truncate BEFORE TRUNCATE ON answer EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER account_no_truncate BEFORE TRUNCATE ON account EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER quarantine_no_delete BEFORE DELETE ON quarantine FOR EACH ROW EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER quarantine_update BEFORE UPDATE ON quarantine FOR EACH ROW EXECUTE FUNCTION tallystick_quarantine_update();
CREATE TRIGGER quarantine_no_truncate BEFORE TRUNCATE ON quarantine EXECUTE FUNCTION tallystick_refuse();
CREATE TRIGGER dataset_no_truncate BEFORE TRUNCATE ON dataset EXECUTE FUNCTION tallystick_refuse();

-- The operator's log; not part of the record. Take it from analysts' roles: REVOKE SELECT ON failure FROM ...
CREATE TABLE failure (
  line TEXT NOT NULL
);
