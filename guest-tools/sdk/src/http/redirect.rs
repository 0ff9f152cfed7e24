//! Where a redirect leads, and what may go along.

use super::{Request, Response};
use crate::error::ToolError;

/// Headers that say nothing about who is asking; only these cross to another origin.
const COMMON_HEADERS: [&str; 4] = ["accept", "accept-encoding", "accept-language", "user-agent"];

/// The request that follows `response`, where it is a redirect that names a place.
pub(super) fn next(request: &Request, response: &Response) -> Result<Option<Request>, ToolError> {
    let status = response.status;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.header("location") else {
        return Ok(None);
    };
    let mut next = request.clone();
    next.target = request.target.join(location).map_err(told_by_the_server)?;
    if becomes_get(status, &request.method) {
        next.method = "GET".to_owned();
        next.body.clear();
        next.headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    if !request.target.same_origin(&next.target) {
        next.headers.retain(|(name, _)| COMMON_HEADERS.contains(&name.as_str()));
    }
    Ok(Some(next))
}

/// A wrong `Location` is the server's fault, not the caller's.
fn told_by_the_server(error: ToolError) -> ToolError {
    match error {
        ToolError::InvalidArgs(why) => {
            ToolError::failed(format!("the server redirects, but {why}"))
        }
        other => other,
    }
}

/// As browsers do (Fetch, "HTTP-redirect fetch").
fn becomes_get(status: u16, method: &str) -> bool {
    match status {
        301 | 302 => method == "POST",
        303 => method != "GET" && method != "HEAD",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(method: &str, status: u16, location: &str) -> Request {
        let request = Request::new(method, "https://e.com/a")
            .unwrap()
            .header("Authorization", "secret")
            .header("Cookie", "secret")
            .header("X-Key", "secret")
            .header("Accept", "text/html")
            .body("x");
        let response = Response {
            url: String::new(),
            status,
            headers: vec![("location".to_owned(), location.into())],
            body: Vec::new(),
            truncated: false,
        };
        next(&request, &response).unwrap().unwrap()
    }

    #[test]
    fn n13_secrets_stay_with_their_origin() {
        assert_eq!(follow("GET", 302, "/b").headers.len(), 4);
        for elsewhere in ["https://f.com/", "http://e.com/", "https://e.com:8443/", "//e.com.evil/"]
        {
            let headers = follow("GET", 302, elsewhere).headers;
            assert_eq!(headers, [("accept".to_owned(), "text/html".to_owned())], "{elsewhere}");
        }
    }

    #[test]
    fn a_method_changes_as_browsers_change_it() {
        assert_eq!(follow("POST", 302, "/b").method, "GET");
        assert!(follow("POST", 302, "/b").body.is_empty());
        assert_eq!(follow("PUT", 302, "/b").method, "PUT");
        assert_eq!(follow("PUT", 303, "/b").method, "GET");
        assert_eq!(follow("POST", 308, "/b").method, "POST");
    }

    #[test]
    fn only_a_redirect_with_a_place_is_one() {
        let request = Request::new("GET", "http://e.com").unwrap();
        let mut response = Response {
            url: String::new(),
            status: 302,
            headers: Vec::new(),
            body: Vec::new(),
            truncated: false,
        };
        assert!(next(&request, &response).unwrap().is_none());
        response.headers.push(("location".to_owned(), b"file:///x".to_vec()));
        assert!(matches!(next(&request, &response), Err(ToolError::ExecutionFailed(_))));
        response.status = 304;
        assert!(next(&request, &response).unwrap().is_none());
    }
}
