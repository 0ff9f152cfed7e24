//! Documents and what they may say, the registries they come from, the folders of tools, and looks at the store.

limits! {
    DOCUMENTS;
    /// A manifest or any other document.
    DOCUMENT_BYTES_MAX: usize = 1_048_576;
    /// Nesting of one document, of which schemas are the deepest thing. Its reader recurses, at up to 38 KiB of stack a level in an unoptimised build, and threads have 2 MiB.
    DOCUMENT_DEPTH_MAX: usize = 32;
    /// Values in one document, so that a small file cannot make a large tree.
    DOCUMENT_NODES_MAX: usize = 100_000;
    /// Values made by all aliases of one document together; with the next it bounds what aliases can blow up.
    DOCUMENT_ALIAS_NODES_MAX: usize = 1_000;
    /// One text in a document.
    DOCUMENT_TEXT_BYTES_MAX: usize = 65_536;
    /// The name of a pod's service: it is a part of a host's name.
    POD_SERVICE_NAME_BYTES_MAX: usize = 63;
    /// The skill of a pod's service: a model reads all of it, as some 16 thousand tokens.
    POD_SKILL_BYTES_MAX: usize = 65_536;
    /// Directories that one pattern of documents (`tools/**/*.yaml`) may look into.
    GLOB_VISITS_MAX: usize = 10_000;
    /// Attempts at a call that fails for a passing reason, where its document asks for retries and does not say (CKP default).
    RETRY_ATTEMPTS_MAX: u32 = 3;
    /// Time between two heartbeats where the Claw does not say (CKP default).
    HEARTBEAT_MS: u64 = 30_000;
    /// The least time between two heartbeats a Claw can ask for: more often only makes noise.
    HEARTBEAT_FLOOR_MS: u64 = 1_000;
    /// Registries a host may ask: all of them are asked for what none has.
    REGISTRIES_MAX: usize = 16;
    /// Documents one load may fetch from registries: what is fetched can refer to more.
    REGISTRY_PACKAGES_MAX: usize = 64;
    /// All components one load may fetch from registries, as they are held in memory until they are compiled.
    REGISTRY_COMPONENTS_BYTES_MAX: usize = 268_435_456;
    /// A registry's answer that says what it holds under one address, with the longest signature.
    REGISTRY_INDEX_BYTES_MAX: usize = 8_192;
    /// Time a registry has to begin an answer, and between two pieces of it.
    REGISTRY_READ_MS: u64 = 10_000;
    /// Time for everything that one load asks registries for, so that a slow one cannot keep a host from starting for long.
    REGISTRY_LOAD_MS: u64 = 120_000;
    /// Packages that `registry serve` lists at its start: more than anybody reads.
    REGISTRY_LISTED_MAX: usize = 1_000;
    /// What a registry says is wrong with a package: a sentence or two.
    REGISTRY_REASON_BYTES_MAX: usize = 512;
    /// Requests that `registry serve` answers at the same time: each may hold a component in memory.
    REGISTRY_REQUESTS_MAX: usize = 8;
    /// Tools of one version of the registry: as many as a tools folder has files.
    RELEASE_TOOLS_MAX: usize = 1_000;
    /// The definitions of one version of the registry, as JSON.
    RELEASE_BYTES_MAX: usize = 33_554_432;
    /// Time PostgreSQL has for one transaction: seeding sends every component of a version.
    RELEASE_STORE_MS: u64 = 60_000;
    /// A pinned version of the registry that cannot be served is looked at this often: reading it may take long.
    RELEASE_RETRY_MS: u64 = 10_000;
    /// Time for everything that one `clawhost pull` or `push` asks: a component of the largest size over a slow line.
    DISTRIBUTION_MS: u64 = 600_000;
    /// Servers that one request of a pull is sent on to: registries keep blobs one hop away.
    REDIRECTS_MAX: usize = 5;
    /// The manifest of an OCI artifact: a component's has under a kilobyte.
    OCI_MANIFEST_BYTES_MAX: u64 = 1_048_576;
    /// The answer of a server that gives tokens for an OCI registry.
    OCI_TOKEN_BYTES_MAX: u64 = 65_536;
    /// The signature of a component: four lines.
    SIGNATURE_BYTES_MAX: u64 = 4_096;
    /// Documents one run may load.
    DOCUMENTS_MAX: usize = 1_000;
    /// Files the drop-in directory may hold.
    DROP_IN_FILES_MAX: usize = 1_000;
    /// Quiet time after the last change of the drop-in directory before it is read again.
    DROP_IN_DEBOUNCE_MS: u64 = 100;
    /// The drop-in directory is also read this often, where the system drops notifications.
    DROP_IN_RESCAN_MS: u64 = 500;
    /// The kernel's list of mounts: some 200 bytes each, and a container host has thousands.
    MOUNTS_BYTES_MAX: u64 = 16_777_216;
    /// Time after which a host has heeded what others wrote to its store: short for a person who waits.
    STORE_POLL_MS: u64 = 500;
}
