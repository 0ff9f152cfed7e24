//! The heap of a guest before Rust 1.97: a later version of Rust's own, which begins with the room that a memory has
//! from the start. The linker's `--initial-heap` makes that room.
//!
//! Rust's own heap grew the memory for its first byte until then. Each call is an instance of its own, and one that
//! grows costs the host two changes of protection; few calls need more than that room. From 1.97 on Rust's own takes
//! it, for threads' handles even where another allocator is set, and two heaps in one room would damage each other.
//! So this file goes, and `build.rs` with it, once `rust-version` is 1.97.

use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static HEAP: GlobalDlmalloc = GlobalDlmalloc;
