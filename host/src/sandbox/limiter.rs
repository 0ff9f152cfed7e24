//! The memory, tables and instances of one call, counted over all of them.

use clawhost_core::limits::{
    GUEST_CORE_INSTANCES_MAX, GUEST_MEMORIES_MAX, GUEST_TABLE_ELEMENTS_MAX,
};
use wasmtime::ResourceLimiter;

use super::clock::Exceeded;

/// Counts what a guest holds, and traps it when it asks for more than was granted.
///
/// A refused `memory.grow` ends the call rather than returning -1, so that a memory bomb
/// ends as declared instead of spinning until its deadline.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_bytes_max: usize,
    memory_bytes: usize,
    table_elements: usize,
}

impl Limiter {
    /// Returns a limiter of `memory_bytes_max` over all memories.
    pub(super) fn new(memory_bytes_max: u64) -> Self {
        let memory_bytes_max = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
        Self { memory_bytes_max, memory_bytes: 0, table_elements: 0 }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) && desired <= self.memory_bytes_max {
            return Ok(false);
        }
        let wanted = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        if wanted > self.memory_bytes_max {
            return Err(Exceeded::Memory.into());
        }
        self.memory_bytes = wanted;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self.table_elements.saturating_add(desired.saturating_sub(current));
        if wanted > GUEST_TABLE_ELEMENTS_MAX {
            return Err(Exceeded::Table.into());
        }
        self.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        GUEST_CORE_INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        GUEST_CORE_INSTANCES_MAX
    }

    fn memories(&self) -> usize {
        GUEST_MEMORIES_MAX
    }
}
