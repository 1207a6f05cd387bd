-- Roles of a ledger. Run this in its database as an administrator or as the owner of the database:
-- once after "tallystick ledger init", and again after each update that changed the layout.
-- It is one transaction, so it does all of this or nothing. tallystick does not run it.
BEGIN;
SET LOCAL standard_conforming_strings = on;
SET LOCAL lock_timeout = '30s';
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ts_owner') THEN
    CREATE ROLE ts_owner NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ts_keeper') THEN
    CREATE ROLE ts_keeper LOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ts_reader') THEN
    CREATE ROLE ts_reader LOGIN;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname IN ('ts_owner', 'ts_keeper', 'ts_reader')
             AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)) THEN
    RAISE EXCEPTION 'ts_owner, ts_keeper or ts_reader is an administrator; drop that role or change it first';
  END IF;
  IF EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member
             WHERE r.rolname IN ('ts_keeper', 'ts_reader')) THEN
    RAISE EXCEPTION 'ts_keeper or ts_reader is a member of another role, whose rights it has; revoke that first';
  END IF;
  IF (SELECT rolcanlogin FROM pg_roles WHERE rolname = 'ts_owner') THEN
    ALTER ROLE ts_owner NOLOGIN;
  END IF;
  IF NOT pg_has_role(current_user, 'ts_owner', 'USAGE') THEN
    EXECUTE format('GRANT ts_owner TO %I', current_user);
  END IF;
END $$;

-- A role that can connect can take the lock for which all writers queue.
REVOKE ALL ON DATABASE {database} FROM PUBLIC, ts_owner, ts_keeper, ts_reader;
GRANT CONNECT ON DATABASE {database} TO ts_owner, ts_keeper, ts_reader;

ALTER SCHEMA {schema} OWNER TO ts_owner;
SET LOCAL search_path = {schema}, pg_temp;
ALTER TABLE migration OWNER TO ts_owner;
ALTER TABLE entry OWNER TO ts_owner;
ALTER TABLE account OWNER TO ts_owner;
ALTER TABLE dataset OWNER TO ts_owner;
ALTER TABLE charge OWNER TO ts_owner;
ALTER TABLE line OWNER TO ts_owner;
ALTER TABLE answer OWNER TO ts_owner;
ALTER TABLE quarantine OWNER TO ts_owner;
ALTER TABLE failure OWNER TO ts_owner;
ALTER TABLE entry_text OWNER TO ts_owner;
ALTER TABLE tag OWNER TO ts_owner;
ALTER TABLE secret OWNER TO ts_owner;
ALTER TABLE seal OWNER TO ts_owner;
ALTER TABLE checkpoint OWNER TO ts_owner;
ALTER FUNCTION tallystick_refuse() OWNER TO ts_owner;
ALTER FUNCTION tallystick_entry_dense() OWNER TO ts_owner;
ALTER FUNCTION tallystick_charge_update() OWNER TO ts_owner;
ALTER FUNCTION tallystick_account_update() OWNER TO ts_owner;
ALTER FUNCTION tallystick_quarantine_update() OWNER TO ts_owner;

REVOKE ALL ON SCHEMA {schema} FROM PUBLIC, ts_keeper, ts_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC, ts_keeper, ts_reader;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA {schema} FROM PUBLIC, ts_keeper, ts_reader;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, ts_keeper, ts_reader;

GRANT USAGE ON SCHEMA {schema} TO ts_keeper, ts_reader;

-- The keeper adds to the record. It changes totals and states, and deletes what can be erased.
GRANT SELECT ON
  migration, entry, account, dataset, charge, line, answer, quarantine, failure,
  entry_text, tag, secret, seal, checkpoint TO ts_keeper;
GRANT INSERT ON
  entry, account, dataset, charge, line, answer, quarantine, failure,
  entry_text, tag, secret, seal, checkpoint TO ts_keeper;
GRANT UPDATE (limit0, limit1, own0, own1, used0, used1, raises, state) ON account TO ts_keeper;
GRANT UPDATE (state, fence, lease_until, last_seq) ON charge TO ts_keeper;
GRANT UPDATE (cleared) ON quarantine TO ts_keeper;
GRANT DELETE ON entry_text, tag, answer TO ts_keeper;

-- The reader sees amounts and hashes: no texts, no answers, no failures and no secret.
GRANT SELECT ON migration, entry, account, dataset, charge, line, quarantine, seal, checkpoint TO ts_reader;

-- Other roles that were allowed to connect one by one. Revoke what they do not need.
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_get_userbyid(a.grantee) AS "other roles that can connect"
FROM pg_database d CROSS JOIN LATERAL aclexplode(d.datacl) a
WHERE d.datname = current_database() AND a.privilege_type = 'CONNECT' AND a.grantee <> d.datdba
  AND pg_get_userbyid(a.grantee) NOT IN ('ts_owner', 'ts_keeper', 'ts_reader')
ORDER BY 1;
COMMIT;
