-- Versions of the registry. What is in these two tables never changes; without row ids, nothing but a
-- key can be replaced, and the triggers of INSERT see to that: REPLACE asks none of DELETE.
CREATE TABLE tool_registries (
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    hash TEXT NOT NULL,
    definition_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    supersedes INTEGER,
    PRIMARY KEY (name, version),
    UNIQUE (name, hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE registry_components (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL) STRICT, WITHOUT ROWID;
-- Which version hosts serve: this one moves.
CREATE TABLE registry_pins (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    hash TEXT NOT NULL,
    pinned_at INTEGER NOT NULL,
    pinned_by TEXT NOT NULL
) STRICT;

CREATE TRIGGER tool_registries_update BEFORE UPDATE ON tool_registries
BEGIN SELECT RAISE(ABORT, 'a version of the registry never changes'); END;
CREATE TRIGGER tool_registries_delete BEFORE DELETE ON tool_registries
BEGIN SELECT RAISE(ABORT, 'a version of the registry never changes'); END;
CREATE TRIGGER tool_registries_insert BEFORE INSERT ON tool_registries
WHEN EXISTS (SELECT 1 FROM tool_registries
    WHERE name = NEW.name AND (version = NEW.version OR hash = NEW.hash))
BEGIN SELECT RAISE(ABORT, 'a version of the registry never changes'); END;
CREATE TRIGGER registry_components_update BEFORE UPDATE ON registry_components
BEGIN SELECT RAISE(ABORT, 'a component of the registry never changes'); END;
CREATE TRIGGER registry_components_delete BEFORE DELETE ON registry_components
BEGIN SELECT RAISE(ABORT, 'a component of the registry never changes'); END;
CREATE TRIGGER registry_components_insert BEFORE INSERT ON registry_components
WHEN EXISTS (SELECT 1 FROM registry_components WHERE digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'a component of the registry never changes'); END;
