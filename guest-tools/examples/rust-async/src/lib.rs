//! The function of example-tool.wit, for WASI 0.3.

use futures_util::future::try_join_all;
use wasi::filesystem::preopens::get_directories;
use wasi::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

wit_bindgen::generate!({ path: "example-tool.wit", generate_all });

struct Tool;

impl Guest for Tool {
    async fn count_words(paths: Vec<String>) -> Result<Vec<u32>, String> {
        let (folder, _) = get_directories().into_iter().next().ok_or("no folder is granted")?;
        try_join_all(paths.into_iter().map(|path| words(&folder, path))).await
    }
}

async fn words(folder: &Descriptor, path: String) -> Result<u32, String> {
    let failed = |why| format!("{path}: {why:?}");
    let (follow, how) = (PathFlags::SYMLINK_FOLLOW, DescriptorFlags::READ);
    let file = folder.open_at(follow, path.clone(), OpenFlags::empty(), how).await.map_err(failed)?;
    let (bytes, end) = file.read_via_stream(0);
    let bytes = bytes.collect().await;
    end.await.map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX))
}

export!(Tool);
