//! The heap of a guest: first room that its memory has from the start, then more from the host.
//!
//! Rust's own heap grows the memory for its first byte. Each call is an instance of its own, and one that
//! grows costs the host two changes of protection; few calls need more than is here.
#![expect(unsafe_code, reason = "an allocator hands out memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::memory_grow;
use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;

use dlmalloc::{Allocator, Dlmalloc};

/// Room from the start. Pages of it that nobody writes to cost nothing but their share of `memory_mb`.
const FIRST_BYTES: usize = 256 << 10;
/// What memory grows by.
const PAGE_BYTES: usize = 64 << 10;

#[repr(align(16))]
struct First(UnsafeCell<[u8; FIRST_BYTES]>);
struct Heap(UnsafeCell<Dlmalloc<Source>>);
/// Where the heap gets its room from.
struct Source {
    is_first: Cell<bool>,
}

static FIRST: First = First(UnsafeCell::new([0; FIRST_BYTES]));
#[global_allocator]
static HEAP: Heap =
    Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Source { is_first: Cell::new(true) })));

// SAFETY: a guest has one thread.
unsafe impl Sync for First {}
// SAFETY: likewise.
unsafe impl Sync for Heap {}

// SAFETY: what is returned is the guest's alone: the first room once, then what memory grew by.
unsafe impl Allocator for Source {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if size <= FIRST_BYTES && self.is_first.take() {
            return (FIRST.0.get().cast(), FIRST_BYTES, 0);
        }
        let pages = size.div_ceil(PAGE_BYTES);
        match memory_grow::<0>(pages) {
            usize::MAX => (null_mut(), 0, 0),
            grown => (null_mut::<u8>().wrapping_add(grown * PAGE_BYTES), pages * PAGE_BYTES, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

// SAFETY: all is passed on as it came, and nothing is borrowed from the cell meanwhile: there is one thread.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { (*self.0.get()).free(at, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe { (*self.0.get()).realloc(at, layout.size(), layout.align(), size) }
    }
}
