//! The command line as a program, in a folder of its own and with nothing of the environment.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use tempfile::TempDir;

use crate::Program;
use crate::leaks::Known;

/// The text of a manifest of that name and autonomy, whose tools may read and write `./workspace`. What
/// follows goes on in its sandbox and then in its `spec`.
#[macro_export]
macro_rules! claw {
    ($name:literal, $autonomy:literal, $more:literal) => {
        concat!(
            "claw: \"0.3.0\"\nkind: Claw\nmetadata: {name: ",
            $name,
            "}\nspec:\n  identity: {inline: {personality: Tests., autonomy: ",
            $autonomy,
            "}}\n",
            r#"  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  sandbox:
    inline:
      level: wasm
      capabilities:
        filesystem: {mode: scoped, mount_paths: [{path: ./workspace, permissions: rw}]}
"#,
            $more
        )
    };
}

/// A folder to run the program in: `state`, the current directory `here`, and no HOME.
#[derive(Debug)]
pub struct Cli {
    program: PathBuf,
    folder: Arc<Folder>,
}

/// Where the program runs. It goes with the last who holds it: a host that runs there does.
#[derive(Debug)]
pub(crate) struct Folder {
    place: TempDir,
    /// What the test itself put there.
    written: Mutex<Vec<PathBuf>>,
}

/// What one run left behind.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Cli {
    /// Returns a folder for `program`. Its credentials are those of every other such folder, so
    /// that compiled code, which counts only under the credentials it was cached under, is
    /// shared.
    pub fn new(program: &str) -> Self {
        static SEED: OnceLock<PathBuf> = OnceLock::new();
        let fresh = Self::empty(program);
        let seed = SEED.get_or_init(|| {
            let seed = crate::cache_folder().join("seed-state");
            let made =
                fresh.command(&["tools", "--state", seed.to_str().unwrap()]).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            seed
        });
        std::fs::create_dir_all(fresh.state()).unwrap();
        for entry in std::fs::read_dir(seed).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                // Copying keeps the mode, which is checked.
                std::fs::copy(&path, fresh.state().join(path.file_name().unwrap())).unwrap();
            }
        }
        // A host that made credentials has begun a log, too.
        std::fs::create_dir_all(fresh.state().join("audit")).unwrap();
        owner_only(&fresh.state());
        fresh
    }

    /// Returns a folder for `program` with nothing in it.
    pub(crate) fn empty(program: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("here")).unwrap();
        let folder = Arc::new(Folder { place, written: Mutex::default() });
        Self { program: PathBuf::from(program), folder }
    }

    /// Keeps the folder.
    pub(crate) fn folder(&self) -> Arc<Folder> {
        Arc::clone(&self.folder)
    }

    /// Returns the state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.state()
    }

    /// Returns the folder that the program runs in.
    pub fn here(&self) -> PathBuf {
        self.folder.place.path().join("here")
    }

    /// Returns the files of the audit log, oldest first.
    pub fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.state().join("audit")).into_iter().flatten();
        let mut logs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        logs.sort();
        logs
    }

    /// Returns the text of all audit logs, oldest first.
    pub fn log(&self) -> String {
        self.logs().iter().map(|log| std::fs::read_to_string(log).unwrap()).collect()
    }

    /// Puts a file into the folder that the program runs in, and returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.here().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        self.folder.written.lock().unwrap().push(path.clone());
        path
    }

    /// Says that the test itself puts a token into the files of the state folder that are called so or begin so.
    pub fn holds(&self, name: &str) {
        self.folder.written.lock().unwrap().push(self.state().join(name));
    }

    /// Returns the tokens that are in use here.
    pub fn known(&self) -> Known {
        Known::of(&self.state())
    }

    /// Returns the program with its surroundings, to be run with `arguments`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.here())
            .env_clear()
            .env("XDG_STATE_HOME", self.folder.place.path().join("state"))
            .env("XDG_CACHE_HOME", crate::cache_folder())
            .env("COLUMNS", "100")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// As [`Cli::command`], under a limit on the size of files (`ulimit -f`): beyond that it is a full disk.
    pub fn limited(&self, blocks: u32, arguments: &[&str]) -> Command {
        let like = self.command(arguments);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
        limited.arg(like.get_program()).args(like.get_args()).current_dir(self.here());
        limited.env_clear();
        limited.envs(like.get_envs().filter_map(|(key, value)| Some((key, value?))));
        limited
    }

    /// Starts the program.
    pub fn start(&self, arguments: &[&str]) -> Program {
        self.start_with(&mut self.command(arguments))
    }

    /// Starts the program by a command of the test's own, which it takes the place of.
    pub fn start_with(&self, command: &mut Command) -> Program {
        Program::host(command, self.folder())
    }

    /// Runs the program with an empty standard input.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, "")
    }

    /// Runs the program with `input` on its standard input, which is then closed.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A program that ends without reading closes the pipe: that is its right.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let known = self.known();
        known.check(&format!("the output of {arguments:?}"), &output.stdout);
        known.check(&format!("the errors of {arguments:?}"), &output.stderr);
        Run::from(output)
    }

    /// Returns `text` without what differs from run to run, folders, and with the name that
    /// people call the program by.
    pub fn tidy(&self, text: &str) -> String {
        let root = crate::source_root();
        let replace = |text: String, path: &Path, name: &str| {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            text.replace(real.to_str().unwrap(), name).replace(path.to_str().unwrap(), name)
        };
        let text = replace(text.to_owned(), self.folder.place.path(), "[folder]");
        replace(text, &root, "[source]").replace("clawhost-under-test", "clawhost")
    }

    /// Runs the program and returns everything it did, to be compared with a snapshot.
    pub fn snapshot(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let code = run.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        let part = |name: &str, text: &str| match text.trim_end() {
            "" => String::new(),
            text => format!("---- {name}\n{text}\n"),
        };
        let text = format!(
            "$ clawhost {}\nexit code {code}\n{}{}",
            arguments.join(" "),
            part("stdout", &run.stdout),
            part("stderr", &run.stderr)
        );
        self.tidy(&text)
    }
}

impl Folder {
    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state/clawhost")
    }
}

impl Drop for Folder {
    /// Nothing that was left behind holds a token.
    fn drop(&mut self) {
        let written = std::mem::take(&mut *self.written.lock().unwrap());
        Known::of(&self.state()).check_files(self.place.path(), &written);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn owner_only(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}
