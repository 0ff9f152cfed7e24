-- What did not fit into replies, without secrets, each for the agent that got the reply.
CREATE TABLE results (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    text BLOB NOT NULL
) STRICT;
CREATE INDEX results_by_owner ON results (owner, expires_ms, bytes);
