//! `skill` of a descriptor: a document for agents, of when to use the service and why.
//!
//! It lies beside the descriptor and is handed on as it is: in a file of its own it can forge nothing.
//! Deliberately absent: the images of services, which nobody opens here.

use std::path::{Component, Path};

use crate::descriptor::describe::Skill;
use crate::limits::POD_SKILL_BYTES_MAX;
use crate::manifest::Documents;
use crate::manifest::problem::{Problems, why};
use crate::manifest::shape::shown;

/// What would be right where it cannot be had.
const BESIDE: &str = "put it into the folder of the descriptor, and name it by its path from there";

/// Returns the text of a skill.
pub(super) fn read(skill: &Skill, docs: &dyn Documents, problems: &mut Problems) -> Option<String> {
    let read = text(skill, docs);
    read.map_err(|(reason, help)| problems.invalid(&skill.at, reason, help)).ok()
}

fn text(
    Skill { folder, path, .. }: &Skill,
    docs: &dyn Documents,
) -> Result<String, (String, &'static str)> {
    let out = || ("`skill` leads out of the folder of its descriptor".to_owned(), BESIDE);
    let is_below = |part| matches!(part, Component::CurDir | Component::Normal(_));
    if !Path::new(path).components().all(is_below) {
        return Err(out());
    }
    let file = folder.join(path);
    let bytes = docs.read(&file).map_err(|error| {
        let file = shown(&file.to_string_lossy());
        (format!("the skill `{file}` cannot be read: {}", why(&error)), BESIDE)
    })?;
    if docs.leaves(folder, &file) {
        return Err(out());
    }
    if bytes.len() > POD_SKILL_BYTES_MAX {
        let reason = format!("the skill has more than {POD_SKILL_BYTES_MAX} bytes");
        return Err((reason, "say when to use the service and why, and leave out the rest"));
    }
    let no_text = |_| ("the skill is no UTF-8 text".to_owned(), "save it as UTF-8");
    String::from_utf8(bytes).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::node::Place;
    use crate::manifest::{DocumentError, OneDocument};

    fn read_at(path: &str, bytes: Vec<u8>) -> Result<String, String> {
        let (folder, path) = (Path::new("d").to_owned(), path.to_owned());
        let skill = Skill { folder, path, at: Place::default() };
        let mut problems = Problems::default();
        let text = read(&skill, &OneDocument(bytes), &mut problems);
        problems.finish(text).map_err(|all| all.iter().map(DocumentError::one_line).collect())
    }

    #[test]
    fn it_is_a_text_of_some_length_below_the_folder_of_its_descriptor() {
        let longest = vec![b'a'; POD_SKILL_BYTES_MAX];
        let longer = [longest.as_slice(), b"a"].concat();
        for path in ["SKILL.md", "./docs/SKILL.md", "..SKILL.md"] {
            assert_eq!(
                read_at(path, b"# When\r\n".to_vec()).as_deref(),
                Ok("# When\r\n"),
                "{path}"
            );
        }
        assert!(read_at("a", longest).is_ok());
        for (path, bytes, says) in [
            ("../SKILL.md", b"a".to_vec(), "`skill` leads out of the folder of its descriptor"),
            ("docs/../../SKILL.md", b"a".to_vec(), "`skill` leads out"),
            ("a", longer, "the skill has more than 65536 bytes"),
            ("a", b"\xff".to_vec(), "the skill is no UTF-8 text"),
        ] {
            let told = read_at(path, bytes).unwrap_err();
            assert!(told.contains(says), "{path}: {told}");
        }
    }
}
