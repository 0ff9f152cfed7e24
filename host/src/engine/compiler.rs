//! Where components are compiled: by a process of its own, in a jail that is granted nothing.
//!
//! Compiling takes memory and time that only the compiler knows, and one that fails may take its process with
//! it. So it is this program, started anew for one component: given that on standard input, it returns the code
//! on standard output, within the bounds of [`clawhost_core::limits`]. Its code is trusted as a compiler's
//! always is: what it writes runs in the host. So it is the very file that runs as the host, and never what lies
//! at a path by now, where a guest may be let to write.
//!
//! A host compiles by itself where it was given no program (one that embeds it), where there is no jail, and
//! where none could be started so far; once one could, a load waits for the next.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clawhost_core::error::exit;
use clawhost_core::limits::{COMPILED_BYTES_MAX, COMPILER_MEMORY_MB, COMPILER_TIMEOUT_MS};
use clawhost_core::truncate;

use super::check::REASON_BYTES_MAX;
use super::turn::COMPILING_NICE;
use super::{LoadError, settings};
use crate::jail::{self, Command, JailError, JailLimits, JailMount, JailSpec, Outcome};

/// Processes and threads of a compiler: it is one.
const PROCESSES_MAX: u32 = 4;
/// Files that a compiler has open: three streams, and its libraries while it starts.
const OPEN_FILES_MAX: u32 = 32;
/// What a compiler is told to be called.
const NAME: &str = "/clawhost";
/// The exit code of a Rust program that panicked.
const PANICKED: u8 = 101;
/// The word that makes this program a compiler, and the one after it for a component of WASI 0.3.
const VERB: &str = "compile-component";
const P3: &str = "--p3";

/// Whether what is compiled is of WASI 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsP3(bool);

/// Why there is no code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoCode {
    /// It is the component.
    Refused(LoadError),
    /// There was no compiler, for this reason: the host may be its own.
    Absent(String),
}

impl NoCode {
    /// Returns no code, where the host has to make it.
    ///
    /// # Errors
    /// It is the component: nobody makes it.
    pub(super) fn left_to_the_host(self) -> Result<Option<Vec<u8>>, LoadError> {
        match self {
            Self::Refused(error) => Err(error),
            Self::Absent(why) => {
                none(&why);
                Ok(None)
            }
        }
    }
}

/// Says why the host compiles by itself. Without a jail it is so each time, and `clawhost doctor` says it.
pub(crate) fn none(why: &str) {
    match jail::support().available() {
        true => tracing::warn!("the host compiles by itself: {why}"),
        false => tracing::info!("the host compiles by itself: {why}"),
    }
}

/// A program that compiles.
#[derive(Debug, Clone)]
pub(crate) struct Compiler {
    program: Arc<File>,
    words: Vec<String>,
    limits: JailLimits,
    timeout: Duration,
    /// It has compiled something: then whatever keeps it from being started passes.
    has_worked: Arc<AtomicBool>,
}

impl Compiler {
    /// Returns the compiler that an open program is: one whose [`VERB`] is [`serve`].
    pub(crate) fn new(program: File) -> Self {
        let limits = JailLimits {
            memory_bytes: COMPILER_MEMORY_MB << 20,
            processes_max: PROCESSES_MAX,
            open_files_max: OPEN_FILES_MAX,
            file_bytes_max: 0,
            output_bytes_max: COMPILED_BYTES_MAX,
        };
        let words = [NAME, VERB].map(str::to_owned).to_vec();
        let timeout = Duration::from_millis(COMPILER_TIMEOUT_MS);
        let (program, has_worked) = (Arc::new(program), Arc::default());
        Self { program, words, limits, timeout, has_worked }
    }

    /// Returns the code of a component. Dropping the future ends the compiler.
    ///
    /// # Errors
    /// [`NoCode`].
    pub(crate) async fn code(&self, binary: &[u8], is_p3: bool) -> Result<Vec<u8>, NoCode> {
        let absent = |error: JailError| match self.has_worked.load(Ordering::Relaxed) {
            true => passing(&error.to_string()),
            false => NoCode::Absent(error.to_string()),
        };
        let argv = self.words.iter().cloned().chain(is_p3.then(|| P3.to_owned())).collect();
        let command = Command { argv, stdin: binary.to_vec(), timeout: self.timeout };
        match jail::run(&self.jail().map_err(absent)?, command).await {
            Ok(ended) => self.outcome(ended),
            Err(JailError::Timeout) => {
                let seconds = self.timeout.as_secs();
                Err(refused(format!("it takes longer than {seconds} s to compile")))
            }
            Err(error) => Err(absent(error)),
        }
    }

    fn jail(&self) -> Result<JailSpec, JailError> {
        let mounts = vec![JailMount { path: jail::NOWHERE.into(), writable: false }];
        let jail = JailSpec::new(mounts, Vec::new(), self.limits.clone())?;
        let jail = jail.executing(Arc::clone(&self.program)).reserving_addresses();
        Ok(jail.at_nice(COMPILING_NICE))
    }

    fn outcome(&self, ended: Outcome) -> Result<Vec<u8>, NoCode> {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = truncate::text(said.trim_end(), REASON_BYTES_MAX);
        tracing::debug!(code = ended.exit_code, "the compiler has ended: {said}");
        let (bytes, max) = (ended.stdout_bytes, self.limits.output_bytes_max);
        match ended.exit_code.and_then(|code| u8::try_from(code).ok()) {
            Some(exit::OK) if bytes <= max => {
                self.has_worked.store(true, Ordering::Relaxed);
                Ok(ended.stdout)
            }
            Some(exit::OK) => {
                Err(refused(format!("its code takes {bytes} bytes, of at most {max}")))
            }
            Some(exit::DOCUMENT) => Err(refused(does_not(said))),
            Some(exit::UPSTREAM) => Err(passing(said)),
            // A signal, or a panic.
            None | Some(PANICKED) => Err(refused(format!(
                "the compiler failed on it or was killed, or it takes more than {} MiB to compile",
                self.limits.memory_bytes >> 20
            ))),
            Some(code) => Err(NoCode::Absent(format!("what was started is none: {code}, {said}"))),
        }
    }
}

fn refused(reason: String) -> NoCode {
    NoCode::Refused(LoadError::Unusable(reason))
}

fn passing(why: &str) -> NoCode {
    NoCode::Refused(LoadError::Passing(format!("it was not compiled: {why}")))
}

/// Says that a component does not compile, and why.
pub(super) fn does_not(why: &str) -> String {
    format!("it does not compile: {}", truncate::text(why, REASON_BYTES_MAX))
}

/// Says whether this program was started as a compiler by `arguments`, the first of which is its name, and
/// for which components.
pub(crate) fn asked(arguments: impl Iterator<Item = OsString>) -> Option<IsP3> {
    let words: Vec<_> = arguments.skip(1).take(3).collect();
    match words.as_slice() {
        [verb] if verb == VERB => Some(IsP3(false)),
        [verb, what] if verb == VERB && what == P3 => Some(IsP3(true)),
        _ => None,
    }
}

/// Compiles the component on standard input to code on standard output: what a [`Compiler`] runs.
///
/// # Errors
/// It does not compile, or a stream fails.
pub(crate) fn serve(IsP3(is_p3): IsP3) -> Result<(), LoadError> {
    let passing = |error: io::Error| LoadError::Passing(error.to_string());
    let mut binary = Vec::new();
    io::stdin().lock().read_to_end(&mut binary).map_err(passing)?;
    let engine = settings::compiling(is_p3);
    let engine = engine.map_err(|error| LoadError::Passing(error.to_string()))?;
    let code = engine.precompile_component(&binary);
    let code = code.map_err(|error| LoadError::Unusable(format!("{error:#}")))?;
    let mut output = io::stdout().lock();
    output.write_all(&code).and_then(|()| output.flush()).map_err(passing)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use claw_guest_artifacts::BUILT_IN;
    use wasmtime::Engine;

    use super::*;

    /// Returns a compiler that is a script, or none where there is no jail.
    fn shell(script: &str) -> Option<Compiler> {
        if !jail::support().available() {
            eprintln!("skipped: there is no jail here");
            return None;
        }
        let compiler = Compiler::new(File::open("/bin/sh").unwrap());
        let words = ["/bin/sh", "-c", script, "sh", VERB].map(str::to_owned).to_vec();
        Some(Compiler { words, ..compiler })
    }

    fn why(outcome: Result<Vec<u8>, NoCode>) -> String {
        match outcome {
            Err(NoCode::Refused(LoadError::Unusable(why))) => why,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_it_is_given_and_what_it_returns_are_whole() {
        let Some(compiler) = shell("echo \"$@\"; cat") else { return };
        let long = vec![b'a'; 1 << 20];
        let code = compiler.code(&long, true).await.unwrap();
        assert_eq!(code, [b"compile-component --p3\n", long.as_slice()].concat());
        assert_eq!(compiler.code(b"", false).await.unwrap(), b"compile-component\n");
    }

    #[tokio::test]
    async fn a_compiler_that_fails_is_the_fault_of_the_component() {
        for (script, says) in [
            ("echo no good >&2; exit 3", "it does not compile: no good"),
            ("exit 101", "the compiler failed on it"),
            ("kill -SEGV $$", "the compiler failed on it"),
            ("touch /tmp/here || exit 3", "it does not compile: touch"),
        ] {
            let Some(compiler) = shell(script) else { return };
            let why = why(compiler.code(b"component", false).await);
            assert!(why.starts_with(says), "{script}: {why}");
        }
    }

    #[tokio::test]
    async fn its_time_memory_and_code_are_bounded() {
        let Some(mut compiler) = shell("exec sleep 600") else { return };
        compiler.timeout = Duration::from_millis(200);
        assert!(why(compiler.code(b"", false).await).starts_with("it takes longer than"));
        let Some(mut compiler) = shell("echo 12345") else { return };
        compiler.limits.output_bytes_max = 5;
        assert_eq!(why(compiler.code(b"", false).await), "its code takes 6 bytes, of at most 5");
        let Some(mut compiler) = shell("a=aaaaaaaa; while :; do a=$a$a; done") else {
            return;
        };
        compiler.limits.memory_bytes = 64 << 20;
        assert!(why(compiler.code(b"", false).await).ends_with("more than 64 MiB to compile"));
    }

    #[tokio::test]
    async fn a_host_is_its_own_compiler_only_where_there_is_none() {
        let calculator = BUILT_IN.iter().find(|artifact| artifact.name == "calculator").unwrap();
        let load = async |compiler| {
            let mut engine = crate::engine::Engine::new(1, None).unwrap();
            engine.compiler = Some(compiler);
            Arc::new(engine).load(calculator.bytes.to_vec()).await
        };
        // Neither a program nor a compiler.
        assert!(load(Compiler::new(File::open("/etc/passwd").unwrap())).await.is_ok());
        let Some(compiler) = shell("exit 127") else { return };
        assert!(load(compiler).await.is_ok());
        for script in ["echo no good >&2; exit 3", "echo code of nobody"] {
            let Some(compiler) = shell(script) else { return };
            let error = load(compiler).await.err().unwrap();
            let LoadError::Unusable(why) = &error else { panic!("{error}") };
            assert!(why.starts_with("it does not compile: "), "{why}");
        }
        let Some(compiler) = shell("echo no room >&2; exit 6") else { return };
        let error = load(compiler).await.err().unwrap();
        assert_eq!(error, LoadError::Passing("it was not compiled: no room".to_owned()));
    }

    #[tokio::test]
    async fn what_could_be_started_once_is_waited_for() {
        let Some(compiler) = shell("echo code") else { return };
        compiler.code(b"", false).await.unwrap();
        let gone = Compiler { program: Arc::new(File::open("/etc/passwd").unwrap()), ..compiler };
        let error = gone.code(b"", false).await.unwrap_err();
        assert!(matches!(error, NoCode::Refused(LoadError::Passing(_))), "{error:?}");
    }

    #[tokio::test]
    async fn it_yields_to_the_host() {
        let Some(compiler) = shell("nice") else { return };
        let nice = String::from_utf8(compiler.code(b"", false).await.unwrap()).unwrap();
        assert_eq!(nice.trim(), COMPILING_NICE.to_string());
    }

    #[tokio::test]
    async fn it_is_the_program_that_was_opened_and_sees_no_other_folder() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("compiler");
        jail::tests::serve::copy_shell(&program);
        let script = format!("ls {} && exit 5; echo code", folder.path().display());
        let Some(compiler) = shell(&script) else { return };
        let compiler = Compiler { program: Arc::new(File::open(&program).unwrap()), ..compiler };
        std::fs::remove_file(&program).unwrap();
        std::fs::write(&program, "another one").unwrap();
        assert_eq!(compiler.code(b"", false).await.unwrap(), b"code\n");
    }

    #[test]
    fn code_of_an_engine_without_room_for_instances_is_that_of_one_with() {
        let is_p3 = cfg!(feature = "wasi-p3");
        for is_p3 in [false, is_p3] {
            let hash = |engine: &Engine| {
                use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
                let hasher = BuildHasherDefault::<DefaultHasher>::default();
                hasher.hash_one(engine.precompile_compatibility_hash())
            };
            let (pool, _) = settings::engine(1, is_p3).unwrap();
            assert_eq!(hash(&pool), hash(&settings::compiling(is_p3).unwrap()));
        }
    }

    #[test]
    fn only_its_own_words_make_a_program_a_compiler() {
        let asked = |line: &str| asked(line.split(' ').map(OsString::from));
        assert_eq!(asked("clawhost compile-component"), Some(IsP3(false)));
        assert_eq!(asked("clawhost compile-component --p3"), Some(IsP3(true)));
        for line in [
            "clawhost",
            "clawhost compile",
            "clawhost compile-component --help",
            "clawhost run compile-component",
            "clawhost compile-component --p3 more",
        ] {
            assert_eq!(asked(line), None, "{line}");
        }
    }
}
