//! Where a path leads, as rules name places.
//!
//! Rules take paths as tools see them: `/` is the first granted folder, `/<name>` another one, and a
//! relative path starts at `/`. An MCP server names folders as its machine does, and what it makes of
//! a text is its own affair: whatever it may read in it counts. Paths are resolved by their text
//! alone, and compared step by step.
//!
//! Deliberately absent: looking at any file. A symbolic link inside a granted folder can lead to
//! another place inside it: a rule about paths is a rule about words. The wall is the sandbox, whose
//! `denied_paths` are told by the file itself.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use percent_encoding::percent_decode_str;

use crate::limits::PATH_BYTES_MAX;
use crate::visible;

/// Stands for a path that has no place below `/`: it climbs past it or past `~`, is too long, or holds what
/// tools read differently (a NUL, a control character, a backslash, `file:` at its start). It
/// lies in no folder; a rule that tightens takes it for one that lies in its own.
pub const NOWHERE: &str = "..";

/// What stands for all granted folders together.
const WHOLE: &str = "/";

/// Where a system shows what a process has open, its working directory and its root among that.
const PROCESS_FOLDERS: [&str; 2] = ["/proc", "/dev/fd"];

/// What begins a group of alternatives in a pattern, beside `*(` and `?(`.
const GROUPS: [&str; 3] = ["!(", "+(", "@("];

/// What braces hold that may put a `..` together: they are written out before a path is read.
const DOTS: [&str; 5] = ["..", "{.", ",.", "{,", ",}"];

/// A folder as tools see it, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(String);

impl Folder {
    /// Reads a folder that a policy names.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        match canonical(text) {
            _ if text.is_empty() => Err("it is empty; `/` is the whole".to_owned()),
            _ if text.len() > PATH_BYTES_MAX => Err(format!("it is over {PATH_BYTES_MAX} bytes")),
            path if path != NOWHERE => Ok(Self(path)),
            _ if is_file_address(text) => Err("it is an address, and no path".to_owned()),
            _ if text.contains(is_strange) => {
                Err("it holds a backslash or a control character".to_owned())
            }
            _ => Err("its `..` leads out of `/`".to_owned()),
        }
    }

    /// Says whether `path`, in canonical form, is this folder or lies in it. One without a slash in
    /// front is taken to begin at `/`.
    pub fn holds(&self, path: &str) -> bool {
        path != NOWHERE && is_below(path, &self.0, |one, other| one == other)
    }

    /// Says whether a call about `path`, in canonical form, may reach into this folder: the path
    /// lies in it, or is a folder above it that a tool reads whole, or leads [`NOWHERE`]. One without
    /// a slash in front may begin in any folder. Names that differ in case are one to some systems.
    pub fn meets(&self, path: &str) -> bool {
        let meets = |folder: &str| is_below(path, folder, alike) || is_below(folder, path, alike);
        path == NOWHERE || meets(&self.0) || (!path.starts_with('/') && ends(&self.0).any(meets))
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a tool reads the paths that it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PathReader {
    /// As rules do: it sees the granted folders under the names that they have there.
    #[default]
    Tool,
    /// As an MCP server does, under the names of its machine.
    Server {
        /// The granted folders by the names that they have on the host.
        folders: Vec<HostFolder>,
        /// It is a program in a jail, which has these folders and no others. One that runs elsewhere
        /// may have folders of its own by whatever name.
        jailed: bool,
    },
}

/// A granted folder by a name that it has on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFolder {
    host: Folder,
    guest: String,
}

impl HostFolder {
    /// Returns the folder that tools see as `guest`; nothing where no argument can have its path on
    /// the host, as it is no text.
    pub fn new(host: &Path, guest: &str) -> Option<Self> {
        let host = Folder::parse(host.to_str()?).ok()?;
        Some(Self { host, guest: guest.to_owned() })
    }

    /// Returns what tools call the host's `path`, where it lies in this folder.
    fn seen(&self, path: &str) -> Option<String> {
        let rest = Path::new(path).strip_prefix(self.host.as_str()).ok()?;
        Some(canonical(&format!("{}/{}", self.guest, rest.display())))
    }

    /// Says whether it lies below the host's `path`.
    fn is_below(&self, path: &str) -> bool {
        let host = self.host.as_str();
        host != path && Path::new(host).starts_with(path)
    }
}

impl PathReader {
    /// Returns what a text may be read as where it is a path, itself first: what stands in quotes or between
    /// blanks; and by a server what it decodes to, and the paths of a list.
    pub(super) fn readings<'t>(&self, text: &'t str) -> Vec<Cow<'t, str>> {
        let bare = text.trim_matches(is_around);
        let mut all = vec![Cow::Borrowed(text)];
        all.extend(Some(bare).filter(|bare| *bare != text).map(Cow::Borrowed));
        if matches!(self, Self::Tool) || text.len() > PATH_BYTES_MAX {
            return all;
        }
        let decoded: Vec<u8> = percent_decode_str(bare).collect();
        let decoded = String::from_utf8_lossy(&decoded).into_owned();
        all.extend(Some(decoded).filter(|decoded| decoded != bare).map(Cow::Owned));
        let parts = bare.split([',', ';']).map(|part| part.trim_matches(is_around));
        let paths = parts.filter(|part| *part != bare && part.contains('/'));
        all.extend(paths.map(Cow::Borrowed));
        all
    }

    /// Returns the places that a path may lead to, in canonical form: one without a slash in front begins in
    /// a folder that nobody knows. What is only a pattern, and no path by its name, begins at one that is.
    pub(super) fn places(&self, path: &str, is_named: bool) -> Vec<String> {
        let Self::Server { folders, jailed } = self else { return vec![canonical(path)] };
        let mut places = named(folders, *jailed, path);
        let above = above_pattern(path).filter(|_| is_named || path.starts_with('/'));
        places.extend(above.into_iter().flat_map(|above| named(folders, *jailed, above)));
        places.extend(begins_anywhere(path).then(|| WHOLE.to_owned()));
        places
    }
}

/// Returns what tools call what a server may mean by `path`: itself, but for a path of the host in a jail, which
/// is known; what it is on the host, also where its slash is left out; and the folders below it.
fn named(folders: &[HostFolder], jailed: bool, path: &str) -> Vec<String> {
    let whole = canonical(path);
    if whole == NOWHERE || whole == WHOLE {
        return vec![whole];
    }
    let is_absolute = path.starts_with('/');
    let seen: Vec<_> = folders.iter().filter_map(|folder| folder.seen(&whole)).collect();
    let below = folders.iter().filter(|folder| is_absolute && folder.is_below(&whole));
    let is_known = jailed && is_absolute && !seen.is_empty();
    let own = (!is_known).then(|| written(path, &whole).to_owned());
    own.into_iter().chain(seen).chain(below.map(|folder| folder.guest.clone())).collect()
}

/// Returns the folder in which a pattern looks: what stands before its first step that may be several names.
fn above_pattern(path: &str) -> Option<&str> {
    // The braces of templates hold one name.
    let has_names = path.contains(',');
    let mut above = 0;
    for step in path.split('/') {
        if is_pattern(step) || (has_names && step.contains('{')) {
            return path.get(..above);
        }
        above += step.len() + 1;
    }
    None
}

/// Says whether a step may be several names. One that is all in brackets, as web frameworks have them, would
/// be one character.
fn is_pattern(step: &str) -> bool {
    let inner = step.trim_matches(['[', ']']);
    step.contains(['*', '?'])
        || inner.contains(['[', ']'])
        || GROUPS.iter().any(|group| step.contains(group))
}

/// Says whether programs read the beginning of a path as another one: a home, a variable, what a process has open,
/// or what braces may climb from.
fn begins_anywhere(path: &str) -> bool {
    let whole = canonical(path);
    let own = written(path, &whole);
    own.starts_with(['~', '$'])
        || PROCESS_FOLDERS.iter().any(|folder| Path::new(own).starts_with(folder))
        || (path.contains('{') && DOTS.iter().any(|dots| path.contains(dots)))
}

/// Returns the `whole` that is the canonical form of `path` with a slash in front only where it is written with one.
fn written<'w>(path: &str, whole: &'w str) -> &'w str {
    if path.starts_with('/') { whole } else { whole.trim_start_matches('/') }
}

/// Says whether `path` is `folder` or lies in it, both in canonical form; `same` says which names are one.
fn is_below(path: &str, folder: &str, same: fn(&str, &str) -> bool) -> bool {
    let mut own = steps(path);
    steps(folder).all(|step| own.next().is_some_and(|own| same(own, step)))
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}

/// Returns what is left of a folder below each one above it.
fn ends(folder: &str) -> impl Iterator<Item = &str> {
    folder.match_indices('/').filter_map(move |(at, _)| folder.get(at + 1..))
}

fn alike(one: &str, other: &str) -> bool {
    one == other || lower(one).eq(lower(other))
}

fn lower(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_lowercase)
}

/// Says whether many programs take a character away from around a path.
fn is_around(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`') || visible::is_invisible(c)
}

pub(super) fn is_file_address(text: &str) -> bool {
    text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// Says whether many programs read the first step of a path as another path.
fn is_stand_in(step: &str) -> bool {
    step.trim_start().starts_with(['~', '$'])
}

fn is_strange(c: char) -> bool {
    c == '\\' || c.is_control()
}

/// Resolves `.`, `..` and empty steps by the text alone; [`NOWHERE`] where that leads nowhere.
pub(super) fn canonical(text: &str) -> String {
    if text.len() > PATH_BYTES_MAX || text.contains(is_strange) || is_file_address(text) {
        return NOWHERE.to_owned();
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in text.split('/') {
        match step {
            "" | "." => {}
            // Above a home or what a variable holds lies what nobody can say.
            ".." if steps.pop().is_none_or(|step| steps.is_empty() && is_stand_in(step)) => {
                return NOWHERE.to_owned();
            }
            ".." => {}
            name => steps.push(name),
        }
    }
    format!("/{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_resolved_by_their_text() {
        for (text, expected) in [
            ("a.txt", "/a.txt"),
            ("/a/b", "/a/b"),
            ("./a//b/./c/", "/a/b/c"),
            ("a/../b", "/b"),
            ("", "/"),
            (".", "/"),
            ("/", "/"),
            ("..", NOWHERE),
            ("a/../../a", NOWHERE),
            ("/..", NOWHERE),
            ("~/../a", NOWHERE),
            (" $HOME/../a", NOWHERE),
            ("a/~/../b", "/a/b"),
            ("a\0b", NOWHERE),
            ("a/..\\..\\b", NOWHERE),
            ("a\nb", NOWHERE),
            ("...", "/..."),
            ("file:///docs/a", NOWHERE),
            (" FILE:docs/a", NOWHERE),
            ("file", "/file"),
            ("%2e%2e/x", "/%2e%2e/x"),
        ] {
            assert_eq!(canonical(text), expected, "{text:?}");
        }
        assert_eq!(canonical(&"a/".repeat(PATH_BYTES_MAX)), NOWHERE);
    }

    #[test]
    fn a_folder_holds_itself_and_what_is_below_and_nothing_that_only_begins_alike() {
        let docs = Folder::parse("./docs/").unwrap();
        assert_eq!(docs.as_str(), "/docs");
        assert!(docs.holds("/docs") && docs.holds("/docs/a") && docs.holds("docs/a/b"));
        for other in ["/", "/documents", "/docs-old/a", "/a/docs", "a", NOWHERE, "/Docs/a"] {
            assert!(!docs.holds(other), "{other}");
        }
        for met in ["/", "/docs", "/docs/a", "/DOCS/a", "docs", NOWHERE] {
            assert!(docs.meets(met), "{met}");
        }
        for other in ["/doc", "/docs-old", "/a", "/a/docs", "a/docs", "x"] {
            assert!(!docs.meets(other), "{other}");
        }
        let all = Folder::parse("/").unwrap();
        assert!(all.holds("/") && all.holds("/a") && !all.holds(NOWHERE) && all.meets("a"));
        for wrong in ["", "..", "/../etc", "a\\b", "a\0"] {
            assert!(Folder::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_path_without_a_slash_in_front_may_begin_in_any_folder_above_a_rule_s() {
        let folder = Folder::parse("/work/Ärger/secret").unwrap();
        for met in ["secret/x", "ärger", "ÄRGER/Secret/x", "work/ärger/secret", "work"] {
            assert!(folder.meets(met), "{met}");
        }
        for other in ["x/secret", "ärger/x", "secrets", "work/secret", "/secret", "/ärger/secret"]
        {
            assert!(!folder.meets(other), "{other}");
        }
        assert!(folder.holds("work/Ärger/secret/x") && !folder.holds("secret/x"));
    }

    fn server(folders: &[(&str, &str)], jailed: bool) -> PathReader {
        let folder = |(host, guest): &(&str, &str)| HostFolder::new(Path::new(host), guest);
        PathReader::Server { folders: folders.iter().filter_map(folder).collect(), jailed }
    }

    fn all_places(reader: &PathReader, text: &str) -> Vec<String> {
        reader.readings(text).iter().flat_map(|reading| reader.places(reading, true)).collect()
    }

    #[test]
    fn a_program_names_folders_as_the_host_does() {
        let folders =
            [("/opt/x/../srv", "/"), ("/mnt/srv", "/"), ("/w/notes", "/notes"), ("/w", "/w")];
        let program = server(&folders, true);
        for (text, places) in [
            ("/opt/srv", &["/"][..]),
            ("/opt/srv/a", &["/a"]),
            // One folder may have two names.
            ("/mnt/srv/secret//x", &["/secret/x"]),
            ("/w", &["/w", "/notes"]),
            ("/w/notes", &["/notes", "/w/notes"]),
            ("/w/notes/secret/x", &["/notes/secret/x", "/w/notes/secret/x"]),
            ("/w/notes2", &["/w/notes2"]),
            ("/opt", &["/opt", "/"]),
            ("/op", &["/op"]),
            ("/", &["/"]),
            ("/etc/passwd", &["/etc/passwd"]),
            ("..", &[".."]),
            // What begins where the program works, or at a folder of its own, or without its slash.
            ("secret/x", &["secret/x"]),
            ("./", &["/"]),
            ("w/a", &["w/a", "/w/a"]),
            ("opt/srv/a", &["opt/srv/a", "/a"]),
            ("opt", &["opt"]),
            // What is read in another way.
            ("~", &["~", "/"]),
            ("~/secret", &["~/secret", "/"]),
            ("./~/x", &["~/x", "/"]),
            ("~me/secret", &["~me/secret", "/"]),
            ("/~", &["/~"]),
            ("$HOME/secret", &["$HOME/secret", "/"]),
            ("/proc/self/cwd/x", &["/proc/self/cwd/x", "/"]),
            ("/dev//fd/3", &["/dev/fd/3", "/"]),
            ("/dev/null", &["/dev/null"]),
            (" /w/notes", &[" /w/notes", "/notes", "/w/notes"]),
            ("\u{feff}/opt/srv/a", &["\u{feff}/opt/srv/a", "/a"]),
            ("/w/notes2 ", &["/w/notes2 ", "/w/notes2"]),
            ("\"/opt/srv/a\"", &["\"/opt/srv/a\"", "/a"]),
            ("'../a'", &["'../a'", ".."]),
            ("/a 'b' c", &["/a 'b' c"]),
            ("/opt/srv/%73ecret", &["/%73ecret", "/secret"]),
            ("100%/%2e%2e/%2E%2E", &["100%/%2e%2e/%2E%2E", ".."]),
            ("a,/opt/srv/b; c/d", &["a,/opt/srv/b; c/d", "/b", "c/d"]),
            ("a, b", &["a, b"]),
            ("/opt/srv/a/s*/x", &["/a/s*/x", "/a"]),
            ("/opt/srv/[s]ecret", &["/[s]ecret", "/"]),
            ("/opt/srv/a/[id]/[[...x]]", &["/a/[id]/[[...x]]"]),
            ("s?", &["s?", "/"]),
            ("/opt/srv/a/@(s)ecret", &["/a/@(s)ecret", "/a"]),
            ("/opt/srv/a/s{e..f}cret", &["/a/s{e..f}cret", "/"]),
            ("/opt/srv/a/{,.}./b", &["/a/{,.}./b", "/a", "/", "/a/{", ".}./b"]),
            ("/opt/srv/a/{secret,b}/x", &["/a/{secret,b}/x", "/a", "/a/{secret", "b}/x"]),
            ("/opt/srv/{{name}}/x", &["/{{name}}/x"]),
        ] {
            assert_eq!(all_places(&program, text), places, "{text}");
        }
        let places = |text, is_named| program.places(text, is_named);
        for below in ["**/*.md", "*.{ts,js}"] {
            assert_eq!(places(below, false), [below], "below what is a path by its name");
        }
        assert_eq!(places("{..,a}/b", false), ["{..,a}/b", "/"]);
        assert_eq!(places("/opt/srv/a/*.md", false), ["/a/*.md", "/a"]);
    }

    #[test]
    fn a_server_elsewhere_may_have_another_folder_by_that_name() {
        let elsewhere = server(&[("/w", "/")], false);
        assert_eq!(all_places(&elsewhere, "/w/docs"), ["/w/docs", "/docs"]);
        assert_eq!(all_places(&elsewhere, "/docs"), ["/docs"]);
        assert_eq!(all_places(&elsewhere, "docs"), ["docs"]);
    }

    #[test]
    fn a_tool_of_the_host_reads_paths_as_they_are_but_for_what_stands_around_them() {
        for (text, places) in [
            ("docs/a", &["/docs/a"][..]),
            ("~/a", &["/~/a"]),
            ("[id]/a, b/c%20*", &["/[id]/a, b/c%20*"]),
            (" 'docs/a'", &["/ 'docs/a'", "/docs/a"]),
        ] {
            assert_eq!(all_places(&PathReader::Tool, text), places, "{text}");
        }
    }

    #[test]
    fn what_is_too_long_has_no_reading_but_one_that_leads_nowhere() {
        let long = format!("{}/a", "a,".repeat(PATH_BYTES_MAX));
        assert_eq!(all_places(&server(&[], true), &long), [NOWHERE]);
    }

    proptest! {
        #[test]
        fn what_lies_within_has_no_step_that_leaves(text in "[a-c./\\\\\u{0}é]{0,24}") {
            let path = canonical(&text);
            if Folder::parse("/a").unwrap().holds(&path) {
                prop_assert!(path == "/a" || path.starts_with("/a/"));
                prop_assert!(path.split('/').skip(1).all(|step| !["", ".", ".."].contains(&step)));
            }
            prop_assert!(path == NOWHERE || canonical(&path) == path);
        }

        #[test]
        fn whatever_a_server_reads_is_a_place(text in "[a-c./~$%2e,; *'\\\\]{0,24}") {
            let program = server(&[("/a", "/"), ("/a/b", "/b")], true);
            let all = Folder::parse("/").unwrap();
            for place in all_places(&program, &text) {
                let climbs = place.split('/').any(|step| step == "..");
                prop_assert!(place == NOWHERE || (!place.is_empty() && !climbs && all.holds(&place)));
            }
        }
    }
}
