//! A guest instance lives for one call: nothing of it reaches the next.

use clawhost_tests::host::text;
use clawhost_tests::{Guest, TestHost};
use serde_json::json;

/// Calls one after the other, so that each gets the memory the one before had.
const CALLS: usize = 20;

#[tokio::test]
async fn globals_and_memory_are_fresh_in_every_call() {
    let host =
        TestHost::builder().calls_running(1).guest(&Guest::read("keeps-a-secret")).build().await;
    for number in 0..CALLS {
        let reply = host.call("keeps-a-secret", json!({})).await.unwrap();
        assert_eq!(text(&reply), "11", "call {number} saw an earlier one");
    }
}

#[tokio::test]
async fn memory_given_to_a_guest_holds_nothing_of_another() {
    let host = TestHost::builder()
        .calls_running(1)
        .guest(&Guest::read("dirties-memory"))
        .guest(&Guest::read("searches-memory"))
        .build()
        .await;
    for number in 0..CALLS / 2 {
        let dirty = host.call("dirties-memory", json!({})).await.unwrap();
        assert!(!dirty.is_error);
        let search = host.call("searches-memory", json!({})).await.unwrap();
        assert!(!search.is_error, "call {number} found bytes of another guest");
    }
}

#[tokio::test]
async fn a_call_after_a_crash_or_a_timeout_is_a_fresh_one() {
    let host = TestHost::builder()
        .calls_running(1)
        .limits("timeout_ms: 1000")
        .guest(&Guest::read("trap"))
        .guest(&Guest::read("spin"))
        .guest(&Guest::read("keeps-a-secret"))
        .build()
        .await;
    for _ in 0..CALLS / 4 {
        assert!(host.call("trap", json!({})).await.unwrap().is_error);
        host.call("spin", json!({})).await.unwrap_err();
        assert_eq!(text(&host.call("keeps-a-secret", json!({})).await.unwrap()), "11");
    }
}

#[tokio::test]
async fn a_guest_sees_no_environment_and_no_arguments_of_the_host() {
    assert!(std::env::vars().count() > 0 && std::env::args().count() > 0);
    let host = TestHost::builder().guest(&Guest::read("reads-environment")).build().await;
    assert_eq!(text(&host.call("reads-environment", json!({})).await.unwrap()), "00");
}

#[tokio::test]
async fn a_guest_is_given_the_directories_of_its_profile_and_none_without_one() {
    let guest = Guest::read("reads-directories");
    let granted = TestHost::builder().guest(&guest).build().await;
    assert_eq!(text(&granted.call(guest.tool(), json!({})).await.unwrap()), "1");
    // Dropped in without a document: the profile `none`.
    let none = TestHost::builder().tool_file("guest.wat", guest.wat().as_bytes()).build().await;
    assert_eq!(text(&none.call(guest.tool(), json!({})).await.unwrap()), "0");
}

#[tokio::test]
async fn a_listing_holds_what_is_in_the_granted_folder() {
    let host = TestHost::builder().file("granted.txt", "granted").build().await;
    let listing = host.ask("list_directory", json!({"path": "."})).await;
    let names: Vec<&str> = listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["granted.txt"]);
}
