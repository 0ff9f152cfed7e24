//! The files of `tests/manifests`, one by one.

use super::*;

/// The files that are tested one by one: `tests/manifests` of the repository.
struct Disk;

#[expect(clippy::disallowed_methods, reason = "the repository's own samples are files")]
impl Documents for Disk {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(file)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok(DirEntry { name: entry.file_name(), is_directory: entry.file_type()?.is_dir() })
        };
        std::fs::read_dir(directory)?.map(entry).collect()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

type Sample = (String, Result<Manifest, Vec<DocumentError>>);

fn samples(folder: &str) -> Vec<Sample> {
    let directory = Path::new("/here");
    let profiles = builtin_profiles(directory).unwrap();
    let around = Surroundings { directory, profiles: &profiles };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manifests").join(folder);
    let mut entries = Disk.list(&folder).unwrap();
    entries.sort();
    let files = entries.into_iter().filter(|entry| !entry.is_directory);
    let files = files.map(|file| file.name.into_string().unwrap());
    let read = |file: &str| {
        let mut manifest = load(&Disk, &[folder.join(file)], around)?;
        Settings::default().apply(&mut manifest).map(|()| manifest)
    };
    files.map(|file| (file.clone(), read(&file))).collect()
}

#[test]
fn every_valid_sample_loads() {
    let samples = samples("valid");
    assert!(samples.len() >= 8);
    for (file, result) in samples {
        assert_eq!(problems(result), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn every_invalid_sample_is_refused_with_its_file_and_line() {
    let samples = samples("invalid");
    assert!(samples.len() >= 30);
    for (file, result) in samples {
        let list = problems(result);
        assert!(!list.is_empty(), "{file} was accepted");
        for line in &list {
            let place =
                line.split_once(&format!("{file}:")).map(|(_, place)| place).unwrap_or_default();
            assert!(place.starts_with(|c: char| c.is_ascii_digit()), "{file}: {line}");
        }
    }
}
