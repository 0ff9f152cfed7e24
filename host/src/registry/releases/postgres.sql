-- As sqlite.sql, for PostgreSQL 14 and later. Carried out where there is none of these tables, by one host alone.
CREATE TABLE registry_components (digest TEXT PRIMARY KEY, bytes BYTEA NOT NULL);
CREATE TABLE registry_pins (
    name TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    hash TEXT NOT NULL,
    pinned_at BIGINT NOT NULL,
    pinned_by TEXT NOT NULL
);
CREATE TABLE tool_registries (
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
CREATE TRIGGER tool_registries_never_changes
BEFORE UPDATE OR DELETE OR TRUNCATE ON tool_registries
FOR EACH STATEMENT EXECUTE FUNCTION registry_never_changes();
CREATE TRIGGER registry_components_never_changes
BEFORE UPDATE OR DELETE OR TRUNCATE ON registry_components
FOR EACH STATEMENT EXECUTE FUNCTION registry_never_changes();
