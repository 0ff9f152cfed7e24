CREATE TABLE replays (
    principal TEXT NOT NULL,
    method TEXT NOT NULL,
    request_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    answer TEXT,
    bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (principal, method, request_id)
) STRICT;
CREATE INDEX replays_by_age ON replays (at_ms);
CREATE INDEX replays_by_principal ON replays (principal, at_ms);
CREATE TABLE replay_totals (
    principal TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER replay_added AFTER INSERT ON replays BEGIN
    INSERT INTO replay_totals VALUES (new.principal, 1, new.bytes)
        ON CONFLICT DO UPDATE SET count = count + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER replay_answered AFTER UPDATE ON replays BEGIN
    UPDATE replay_totals SET bytes = bytes - old.bytes + new.bytes
        WHERE principal = new.principal;
END;
CREATE TRIGGER replay_dropped AFTER DELETE ON replays BEGIN
    UPDATE replay_totals SET count = count - 1, bytes = bytes - old.bytes
        WHERE principal = old.principal;
END;
