//! Every document in tests/manifests: the valid ones load, the invalid ones are refused with
//! the file, the line and what would be right.

use clawhost_tests::{Cli, source_root};

use crate::cli::PROGRAM;

/// Returns the documents of a folder that stand alone: files, not what they refer to.
fn documents(folder: &str) -> Vec<String> {
    let folder = source_root().join("tests/manifests").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = entries
        .filter(|path| path.is_file())
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn stem(file: &str) -> String {
    let name = std::path::Path::new(file).file_name().unwrap();
    name.to_str().unwrap().replace('.', "-")
}

#[test]
fn every_valid_document_is_valid() {
    let cli = Cli::new(PROGRAM);
    for file in documents("valid") {
        let run = cli.run(&["validate", &file]);
        assert_eq!(run.code, Some(0), "{file}: {}", run.stderr);
        assert!(run.stdout.trim_end().ends_with("valid"), "{file}: {}", run.stdout);
    }
}

#[test]
fn every_invalid_document_is_refused_with_its_place_and_what_would_be_right() {
    let cli = Cli::new(PROGRAM);
    for file in documents("invalid") {
        let run = cli.run(&["validate", &file]);
        assert_eq!(run.code, Some(3), "{file}: {}{}", run.stdout, run.stderr);
        insta::assert_snapshot!(format!("invalid__{}", stem(&file)), cli.tidy(&run.stderr));
    }
}

#[test]
fn validating_and_running_refuse_alike() {
    let cli = Cli::new(PROGRAM);
    for file in documents("invalid") {
        let run = cli.run(&["tools", &file]);
        assert_eq!(run.code, Some(3), "{file} is served: {}{}", run.stdout, run.stderr);
    }
}
