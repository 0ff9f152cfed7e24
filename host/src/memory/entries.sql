CREATE TABLE memory_parts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    store TEXT NOT NULL,
    owner TEXT NOT NULL,
    entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (store, owner)
) STRICT;
CREATE TABLE memory_entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    part INTEGER NOT NULL REFERENCES memory_parts (id),
    at_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    id TEXT NOT NULL,
    key TEXT,
    metadata TEXT,
    content TEXT NOT NULL
) STRICT;
CREATE INDEX memory_by_time ON memory_entries (part, at_ms, seq);
CREATE INDEX memory_by_order ON memory_entries (part, seq);
CREATE INDEX memory_by_key ON memory_entries (part, key, seq) WHERE key IS NOT NULL;
CREATE TRIGGER memory_added AFTER INSERT ON memory_entries BEGIN
    UPDATE memory_parts SET entries = entries + 1, bytes = bytes + new.bytes WHERE id = new.part;
END;
CREATE TRIGGER memory_dropped AFTER DELETE ON memory_entries BEGIN
    UPDATE memory_parts SET entries = entries - 1, bytes = bytes - old.bytes WHERE id = old.part;
END;
