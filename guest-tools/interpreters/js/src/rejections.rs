//! Promises that failed and that nobody asked: a program that forgets one would end as if all
//! were well.

use std::cell::RefCell;

use boa_engine::builtins::promise::{OperationType, Promise, PromiseState};
use boa_engine::context::HostHooks;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsObject, JsValue};

/// The rejected promises that have no handler yet, oldest first.
#[derive(Default)]
pub(crate) struct Rejections(RefCell<Vec<JsObject<Promise>>>);

impl Rejections {
    /// Returns the reason of the oldest.
    pub(crate) fn first(&self) -> Option<JsValue> {
        let first = self.0.borrow().first().cloned()?;
        match JsPromise::from(first).state() {
            PromiseState::Rejected(reason) => Some(reason),
            PromiseState::Fulfilled(_) | PromiseState::Pending => None,
        }
    }
}

impl HostHooks for Rejections {
    fn promise_rejection_tracker(
        &self,
        promise: &JsObject<Promise>,
        operation: OperationType,
        _: &mut Context,
    ) {
        let mut unhandled = self.0.borrow_mut();
        match operation {
            OperationType::Reject => unhandled.push(promise.clone()),
            OperationType::Handle => unhandled.retain(|one| one != promise),
        }
    }
}
