CREATE TABLE memory_vectors (
    seq INTEGER PRIMARY KEY REFERENCES memory_entries (seq) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;
