//! Scripts of `cases/`, each run by this shell and by the machine's own, side by side.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::{OUTPUT_BYTES_MAX, PIPE_BYTES_MAX};
use crate::shell::{Ended, Shell};
use crate::stop::Stop;
use crate::world::{Clock, FileError, Filed, Files, Kind, Stat};

/// Files of a folder of the machine.
struct Native(PathBuf);

impl Native {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

fn filed<T>(result: std::io::Result<T>) -> Filed<T> {
    result.map_err(|error| FileError(error.to_string()))
}

fn kind(kind: fs::FileType) -> Kind {
    match () {
        () if kind.is_symlink() => Kind::Link,
        () if kind.is_dir() => Kind::Folder,
        () if kind.is_file() => Kind::File,
        () => Kind::Other,
    }
}

impl Files for Native {
    fn stat(&self, path: &str, follow: bool) -> Filed<Stat> {
        let path = self.at(path);
        let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let found = filed(found)?;
        let modified = found.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        Ok(Stat { kind: kind(found.file_type()), size: found.len(), modified })
    }

    fn is_same(&self, one: &str, other: &str) -> Filed<bool> {
        use std::os::unix::fs::MetadataExt;
        let id = |path| filed(fs::metadata(self.at(path))).map(|it| (it.dev(), it.ino()));
        Ok(id(one)? == id(other)?)
    }

    fn list(&self, path: &str) -> Filed<Vec<(String, Kind)>> {
        if path.ends_with("closed") {
            // Whoever runs the tests may read any folder, so this one is told apart by its name.
            return Err(FileError("it may not be read".to_owned()));
        }
        let entries = filed(fs::read_dir(self.at(path)))?;
        Ok(entries
            .map(|entry| entry.unwrap())
            .map(|e| (e.file_name().into_string().unwrap(), kind(e.file_type().unwrap())))
            .collect())
    }

    fn read(&self, path: &str, offset: u64, bytes: usize) -> Filed<Vec<u8>> {
        let all = filed(fs::read(self.at(path)))?;
        let rest = all.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        Ok(rest[..bytes.min(rest.len())].to_vec())
    }

    fn create(&self, path: &str) -> Filed<()> {
        filed(fs::write(self.at(path), b""))
    }

    fn append(&self, path: &str, bytes: &[u8]) -> Filed<()> {
        use std::io::Write;
        let file = fs::OpenOptions::new().append(true).create(true).open(self.at(path));
        filed(filed(file)?.write_all(bytes))
    }

    fn make_folder(&self, path: &str) -> Filed<()> {
        filed(fs::create_dir(self.at(path)))
    }

    fn remove_file(&self, path: &str) -> Filed<()> {
        filed(fs::remove_file(self.at(path)))
    }

    fn remove_folder(&self, path: &str) -> Filed<()> {
        filed(fs::remove_dir(self.at(path)))
    }

    fn rename(&self, from: &str, to: &str) -> Filed<()> {
        filed(fs::rename(self.at(from), self.at(to)))
    }

    fn set_modified(&self, path: &str, time: Duration) -> Filed<()> {
        let file = filed(fs::File::options().write(true).open(self.at(path)))?;
        filed(file.set_modified(UNIX_EPOCH + time))
    }
}

struct Now;

impl Clock for Now {
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
    }

    fn steady(&self) -> Duration {
        self.wall()
    }
}

/// A folder with the files that cases use; it goes when it goes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = format!("claw-shell-{}-{count}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        for (name, text) in [
            ("fruit", "pear\napple\nfig\napple\nbanana\n"),
            ("numbers", "10\n9\n2\n33\n1\n2\n"),
            (
                "people.csv",
                "name,age,town\nAda,36,London\nBob,7,Paris\nCleo,41,Rome\nDan,36,Oslo\n",
            ),
            ("words.txt", "the quick brown fox\njumps over\n\nthe lazy dog\n"),
            ("table", "a 1 x\nb 22 y\nc 3 z\n"),
            ("conf.ini", "[main]\nport = 80\n# a comment\nhost=localhost\n[other]\nport = 81\n"),
            (
                "data.json",
                "{\"name\":\"Ada\",\"tags\":[\"x\",\"y\"],\"n\":3,\"in\":{\"k\":null}}\n",
            ),
            (
                "rows.json",
                "[{\"id\":1,\"v\":\"a\"},{\"id\":2,\"v\":\"b\"},{\"id\":3,\"v\":\"a\"}]\n",
            ),
            ("deep/one.txt", "one\n"),
            ("deep/two.md", "two\nTODO here\n"),
            ("deep/er/three.txt", "three\ntodo there\n"),
            (".hidden", "secret\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run_in(folder: &Path, script: &str, stdin: &str, seconds: u64) -> Result<Ended, Stop> {
    let files = Rc::new(Native(folder.to_owned()));
    Shell::run(files, Rc::new(Now), script, stdin, Duration::from_secs(seconds))
}

fn text(buffer: &std::cell::RefCell<crate::io::Buffer>) -> String {
    String::from_utf8_lossy(&buffer.borrow().bytes).into_owned()
}

struct Case<'a> {
    name: &'a str,
    /// Why it is known to end otherwise here.
    differs: Option<&'a str>,
    script: &'a str,
}

/// `=== name` or `=== name | differs: reason`, then the script.
fn cases(text: &str) -> Vec<Case<'_>> {
    let parts = text.split("=== ").skip(1);
    parts
        .map(|part| {
            let (head, script) = part.split_once('\n').unwrap();
            let (name, differs) =
                head.split_once(" | differs: ").map_or((head, None), |(n, d)| (n, Some(d)));
            Case { name, differs, script }
        })
        .collect()
}

const CASES: [(&str, &str); 5] = [
    ("syntax", include_str!("../cases/syntax.txt")),
    ("expansion", include_str!("../cases/expansion.txt")),
    ("text", include_str!("../cases/text.txt")),
    ("files", include_str!("../cases/files.txt")),
    ("languages", include_str!("../cases/languages.txt")),
];

/// What this shell prints and returns.
fn ours(case: &Case<'_>) -> (String, i32, String) {
    let folder = Folder::new("ours");
    match run_in(&folder.0, case.script, "from stdin\n", 20) {
        Ok(ended) => (text(&ended.stdout), ended.status, text(&ended.stderr)),
        Err(stop) => (format!("{stop:?}"), -1, String::new()),
    }
}

/// What the machine's own shell prints and returns, where `first` is searched for programs before its own folders.
fn theirs(case: &Case<'_>, first: &Path) -> (String, i32) {
    use std::io::Write;
    let folder = Folder::new("theirs");
    let mut child = Command::new("dash")
        .args(["-c", case.script])
        .current_dir(&folder.0)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", first.display()))
        .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("HOME", "/")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A script that does not read it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(b"from stdin\n");
    let output = child.wait_with_output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
}

const MAWK: &str = "/usr/bin/mawk";

fn there(command: &str) -> bool {
    let found = Command::new(command).arg("--version").stdin(Stdio::null()).output();
    found.is_ok()
}

#[test]
fn every_script_ends_as_in_the_machines_own_shell_or_is_listed_as_different() {
    if !there("dash") || !there("jq") || !Path::new(MAWK).exists() {
        eprintln!("skipped: this machine has no dash, jq or mawk to compare with");
        return;
    }
    // Awks print large numbers each in a way of their own, and a machine may have several.
    let programs = Folder::new("programs");
    std::os::unix::fs::symlink(MAWK, programs.0.join("awk")).unwrap();
    let (mut wrong, mut same, mut different) = (Vec::new(), 0, 0);
    for (file, text) in CASES {
        for case in cases(text) {
            let (stdout, status, stderr) = ours(&case);
            let agree = (stdout.clone(), status) == theirs(&case, &programs.0);
            match (agree, case.differs) {
                (true, None) => same += 1,
                (false, Some(reason)) if !reason.is_empty() => different += 1,
                (true, Some(_)) => wrong.push(format!("{file}: {}: no longer differs", case.name)),
                (false, _) => wrong.push(format!(
                    "{file}: {}: {}\n  ours:   {stdout:?} {status}\n  theirs: {:?}\n  stderr: {stderr}",
                    case.name,
                    case.script.trim_end(),
                    theirs(&case, &programs.0),
                )),
            }
        }
    }
    eprintln!("{same} scripts end the same, {different} are known to differ");
    assert!(wrong.is_empty(), "{} of {same}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(same >= 200, "{same}");
}

fn bounded(script: &str) -> Ended {
    let folder = Folder::new("bounds");
    run_in(&folder.0, script, "", 60).unwrap_or_else(|stop| panic!("{script}: {stop:?}"))
}

#[test]
fn output_is_cut_and_its_true_size_kept() {
    let ended = bounded("seq 1 100000");
    assert_eq!(ended.stdout.borrow().bytes.len(), OUTPUT_BYTES_MAX);
    assert_eq!(ended.stdout.borrow().total, 588_895);
}

#[test]
fn a_full_pipe_stops_its_writer_and_is_an_error_for_who_reads_it_all() {
    assert_eq!(text(&bounded("yes | head -n 1").stdout), "y\n");
    let ended = bounded("yes | wc -l");
    assert_eq!(ended.status, 2);
    assert!(text(&ended.stderr).contains(&PIPE_BYTES_MAX.to_string()));
}

#[test]
fn values_and_nesting_are_bounded() {
    let deep = format!("{}:{}", "(".repeat(9_000), ")".repeat(9_000));
    let parts = format!("echo {}", "${x:-".repeat(9_000));
    for script in [
        "x=0123456789; while :; do x=$x$x; done",
        "i=0; while :; do i=$((i+1)); eval v$i=0123456789012345678901234567890123456789; done",
        "f() { f; }; f",
        "x=$(yes)",
        "set -- $(seq 1 150000)",
        "awk 'BEGIN{x=\"a\"; for(;;) x = x x}'",
        "awk 'function f(){f()} BEGIN{f()}'",
        "printf '%999999999d' 1 || exit 2",
        "echo $((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
        &deep,
        &parts,
    ] {
        let shown: String = script.chars().take(60).collect();
        assert_eq!(bounded(script).status, 2, "{shown}");
    }
}

#[test]
fn a_file_is_not_copied_onto_itself_by_another_name() {
    let folder = Folder::new("itself");
    let (data, content) = (folder.0.join("data"), vec![b'a'; 200_000]);
    fs::write(&data, &content).unwrap();
    std::os::unix::fs::symlink("data", folder.0.join("link")).unwrap();
    fs::hard_link(&data, folder.0.join("name")).unwrap();
    fs::create_dir_all(folder.0.join("a")).unwrap();
    fs::create_dir_all(folder.0.join("b/a")).unwrap();
    fs::hard_link(&data, folder.0.join("a/f")).unwrap();
    std::os::unix::fs::symlink("../../data", folder.0.join("b/a/f")).unwrap();
    let scripts = ["cp data link", "cp link data", "cp data name", "cp data ./data", "cp -r a b"];
    for script in scripts {
        let ended = run_in(&folder.0, script, "", 60).unwrap();
        assert_eq!((ended.status, fs::read(&data).unwrap() == content), (1, true), "{script}");
        assert!(text(&ended.stderr).contains("the destination itself"), "{script}");
    }
}

#[test]
fn a_folder_that_cannot_be_searched_is_no_search_without_a_match() {
    let searched =
        "mkdir closed z; echo key > z/file; grep -r key .; echo $?; grep -rs none z .; echo $?";
    let ended = bounded(searched);
    assert_eq!(text(&ended.stdout), "./z/file:key\n2\n2\n");
    assert_eq!(text(&ended.stderr), "grep: ./closed: it may not be read\n");
}

#[test]
fn no_field_is_wider_than_can_be_written() {
    let seq = format!("seq 1.{}", "0".repeat(70_000));
    for script in ["printf '%.65536f' 1", "echo x | nl -w 70000", &seq] {
        let shown: String = script.chars().take(60).collect();
        assert!([1, 2].contains(&bounded(script).status), "{shown}");
    }
    assert!(text(&bounded("printf '%.65535g' 0.0001").stdout).starts_with("0.0001"));
}

#[test]
fn numbers_that_would_be_other_ones_are_refused_and_others_are_right() {
    let ended = bounded("seq 9007199254740993 9007199254740994; printf '%u' 18446744073709551615");
    assert_eq!(text(&ended.stdout), "9007199254740993\n9007199254740994\n18446744073709551615");
    let long = format!("seq {0} {0}", "9".repeat(50));
    for script in [
        "seq 1e17 1e17", "seq -f %g 9007199254740993", "fold -w 0 fruit", "echo a | xargs -n 0",
        &long,
    ] {
        assert_eq!((bounded(script).status, &*text(&bounded(script).stdout)), (2, ""), "{script}");
    }
    let ended = bounded("printf %d 0x8000000000000000");
    assert_eq!((ended.status, &*text(&ended.stdout)), (1, "9223372036854775807"));
}

#[test]
fn a_script_ends_at_its_time() {
    let folder = Folder::new("time");
    for script in
        ["while :; do :; done", "yes >/dev/null", "awk 'BEGIN{for(;;);}'", "echo|sed ':a;ba'"]
    {
        assert!(matches!(run_in(&folder.0, script, "", 1), Err(Stop::Timeout)), "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_names_those_that_are() {
    let ended = bounded("python3 -c 1");
    assert_eq!(ended.status, 127);
    assert!(text(&ended.stderr).contains(" awk ") && text(&ended.stderr).contains(" xargs "));
}
