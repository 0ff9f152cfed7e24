//! `clawhost new`: a folder with a tool that builds and runs as its README says.
//!
//! The templates are the examples of `guest-tools/examples`, which are built and called by tests;
//! only the name in them is replaced.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clawhost_core::error::exit;

use super::fail::Fail;
use super::show;

/// A name becomes a file's, a tool's and a function's: shorter than each of them may be.
const NAME_BYTES_MAX: usize = 48;

/// Words that WIT, JavaScript, Python or Rust keep for themselves: no function can have one as its name.
const RESERVED: &str = "abstract and arguments as assert async await become bool borrow box break case catch \
    char class const constructor continue crate debugger def default del delete do dyn elif \
    else enum error-context eval except export extends extern f32 f64 false final finally flags \
    float32 float64 fn for from func function future gen global if impl implements import in include \
    instanceof interface is lambda let list loop macro map match mod move mut new nonlocal \
    not null option or override own package pass priv private protected pub public raise \
    record ref resource result return s16 s32 s64 s8 self static stream string struct super \
    switch this throw trait true try tuple type typeof u16 u32 u64 u8 unsafe unsized use var \
    variant virtual void where while with world yield";

macro_rules! template {
    ($($path:literal),+) => {
        &[$((concat!("/", $path), include_str!(concat!("../../../guest-tools/examples/", $path)))),+]
    };
}

type Files = &'static [(&'static str, &'static str)];

/// What lies in every folder: the manifest that serves it, and its runtime file.
const COMMON: Files = template!("claw.yaml", "clawhost.yaml");
const C: Files = template!("c/README.md", "c/example-tool.c");
const JS: Files = template!(
    "js/README.md", "js/package.json", "js/build.mjs", "js/example-tool.js", "js/example-tool.wit"
);
const PYTHON: Files = template!("python/README.md", "python/app.py", "python/example-tool.wit");
const RUST: Files = template!(
    "rust/README.md", "rust/Cargo.toml", "rust/.cargo/config.toml", "rust/src/lib.rs",
    "rust/example-tool.wit"
);

/// Make a folder with a small tool in a language of yours
///
/// Nothing is fetched or installed: the folder's README names what builds it. The tool is a
/// component of its own world, or in C a program for WASI; what it exports becomes the tool.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost new word-count --lang python")]
pub(super) struct NewArgs {
    /// The tool's name, such as `word-count`; the folder gets it too
    #[arg(value_name = "NAME")]
    name: String,
    /// What to write it in
    #[arg(long, value_name = "LANGUAGE")]
    lang: Language,
    /// List the files that would be made, and make none
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    C,
    Js,
    Python,
    Rust,
}

impl Language {
    const fn files(self) -> Files {
        match self {
            Self::C => C,
            Self::Js => JS,
            Self::Python => PYTHON,
            Self::Rust => RUST,
        }
    }
}

pub(super) fn run(args: &NewArgs) -> Result<u8, Fail> {
    check(&args.name, args.lang)?;
    let folder = Path::new(&args.name);
    if args.dry_run {
        files(folder, &args.name, args.lang)
            .for_each(|(path, _)| show::line(&path.display().to_string()));
        return Ok(exit::OK);
    }
    write(folder, &args.name, args.lang).map_err(|error| Fail::unwritable(folder, &error))?;
    show::line(&format!("{} is made. To build and call it:\n\n  cd {}", args.name, args.name));
    let readme = args.lang.files().iter().filter(|(path, _)| path.ends_with("README.md"));
    for (_, text) in readme {
        let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
        commands.for_each(|command| show::line(&format!("  {}", named(command, &args.name))));
    }
    Ok(exit::OK)
}

/// A name is in every one of the languages what WIT takes: words of lower-case letters and digits. In C it is
/// a file's alone.
fn check(name: &str, language: Language) -> Result<(), Fail> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    let is_reserved = RESERVED.split(' ').any(|word| word == name);
    let is_name = |name: &str| name.len() <= NAME_BYTES_MAX && name.split('-').all(is_word);
    let right = name.to_ascii_lowercase().replace(['_', ' '], "-");
    let hint = if !is_name(name) && is_name(&right) {
        format!("write `{right}`; it is called as `{}`", right.replace('-', "_"))
    } else if !is_name(name) {
        format!(
            "words of `a-z` and `0-9` that begin with a letter, with `-` between them, {NAME_BYTES_MAX} characters at most"
        )
    } else if is_reserved && !matches!(language, Language::C) {
        "it is a word of a language, which no function can be called: add another, with `-` between them"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(Fail::usage(format!("{name:?} cannot be the name of a tool"), &hint))
}

fn write(folder: &Path, name: &str, language: Language) -> std::io::Result<()> {
    std::fs::create_dir(folder)?;
    std::fs::create_dir(folder.join("tools"))?;
    for (path, text) in files(folder, name, language) {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, named(&unmarked(text), name))?;
    }
    Ok(())
}

/// Returns the files of the folder, with what is in each.
fn files(
    folder: &Path,
    name: &str,
    language: Language,
) -> impl Iterator<Item = (PathBuf, &'static str)> {
    COMMON.iter().chain(language.files()).map(move |(path, text)| {
        // Without the language's own folder.
        let path = path.trim_start_matches('/');
        let path = path.split_once('/').map_or(path, |(_, rest)| rest);
        (folder.join(named(path, name)), *text)
    })
}

/// Leaves out what says how our tests take an example.
fn unmarked(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("<!-- ")).collect()
}

/// Puts `name` in the place of the examples' name, in each of its spellings.
fn named(text: &str, name: &str) -> String {
    let camel: String = name.split('-').enumerate().map(capitalised).collect();
    text.replace("example-tool", name)
        .replace("example_tool", &name.replace('-', "_"))
        .replace("exampleTool", &camel)
}

fn capitalised((index, word): (usize, &str)) -> String {
    match word.chars().next() {
        Some(first) if index > 0 => first.to_uppercase().chain(word.chars().skip(1)).collect(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        for name in ["a", "word-count", "x2-y3"] {
            assert!(check(name, Language::Rust).is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "2a", "A", "../a", "a b", &"a".repeat(49)] {
            assert!(check(name, Language::C).is_err(), "{name}");
        }
        let Err(Fail::Other { hint: Some(hint), .. }) = check("My_tool", Language::C) else {
            panic!("it is no name")
        };
        assert_eq!(hint, "write `my-tool`; it is called as `my_tool`");
    }

    #[test]
    fn a_word_that_a_language_keeps_is_no_name_but_in_c() {
        for name in ["list", "self", "delete", "lambda", "error-context"] {
            for language in [Language::Js, Language::Python, Language::Rust] {
                assert!(check(name, language).is_err(), "{name} in {language:?}");
            }
            assert!(check(name, Language::C).is_ok(), "{name}");
        }
        assert!(check("list-all", Language::Python).is_ok());
    }

    #[test]
    fn nothing_in_the_folder_is_about_our_tests() {
        assert_eq!(unmarked("a\n<!-- not run: why -->\nb\n"), "a\nb\n");
    }

    #[test]
    fn a_name_is_put_in_every_spelling() {
        let text = "example-tool example_tool exampleTool";
        assert_eq!(named(text, "word-count-2x"), "word-count-2x word_count_2x wordCount2x");
    }
}
