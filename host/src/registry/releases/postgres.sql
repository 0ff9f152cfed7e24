-- As sqlite.sql, for PostgreSQL 14 and later. Several hosts may come first: one makes the tables.
BEGIN;
SELECT pg_advisory_xact_lock(7236832946127);
CREATE TABLE IF NOT EXISTS registry_components (digest TEXT PRIMARY KEY, bytes BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS registry_pins (
    name TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    hash TEXT NOT NULL,
    pinned_at BIGINT NOT NULL,
    pinned_by TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tool_registries (
    name TEXT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    hash TEXT NOT NULL,
    definition_json TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    supersedes BIGINT,
    PRIMARY KEY (name, version),
    UNIQUE (name, hash)
);
CREATE OR REPLACE FUNCTION registry_never_changes() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'a version of the registry never changes'; END $$;
CREATE OR REPLACE TRIGGER tool_registries_never_changes
BEFORE UPDATE OR DELETE OR TRUNCATE ON tool_registries
FOR EACH STATEMENT EXECUTE FUNCTION registry_never_changes();
CREATE OR REPLACE TRIGGER registry_components_never_changes
BEFORE UPDATE OR DELETE OR TRUNCATE ON registry_components
FOR EACH STATEMENT EXECUTE FUNCTION registry_never_changes();
COMMIT;
