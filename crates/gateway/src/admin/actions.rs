//! Operations on a running process, from the admin listener.

use http::{Method, Response, StatusCode};
use sealway_runtime::certs::{self, Leaf};
use sealway_runtime::http::Body;
use sealway_sessions::answer::v1_error;
use serde_json::json;

use super::{Dashboard, answer, decoded, not_allowed, nothing_here, parameter};
use crate::server::OperationError;

/// True if the first segment of a path belongs to an operation.
pub(super) fn is_one(first: &str) -> bool {
    matches!(first, "reload" | "drain" | "listeners" | "certificates" | "connections")
}

/// Returns the method of the operations under this segment.
pub(super) fn methods(first: &str) -> &'static str {
    match first {
        "connections" => "DELETE",
        _ => "POST",
    }
}

impl Dashboard {
    /// Runs an operation and answers with its result.
    pub(super) async fn act(&self, method: &Method, segments: &[&str], query: &str) -> Response<Body> {
        let server = &self.0.server;
        match (method, segments) {
            (&Method::POST, ["reload"]) => match server.reload().await {
                Ok(done) => answer(&done),
                Err(refused) => refuse(&refused),
            },
            (&Method::POST, ["drain"]) => {
                server.ask_to_drain();
                accepted(json!({"draining": true}))
            }
            (&Method::POST, ["listeners", name, verb @ ("stop" | "start")]) => self.switch(name, verb).await,
            (&Method::DELETE, ["connections", id]) => self.close(id, query),
            (&Method::POST, ["certificates", "rotate"]) => self.rotate(query).await,
            (_, ["connections", _]) => not_allowed("DELETE"),
            (_, ["reload" | "drain"] | ["listeners", _, "stop" | "start"] | ["certificates", "rotate"]) => {
                not_allowed("POST")
            }
            (
                _,
                [
                    "status" | "events" | "config" | "certificates" | "connections" | "upstreams" | "sessions"
                    | "identity" | "routes" | "refusals" | "logs",
                ],
            ) => not_allowed("GET"),
            _ => nothing_here(),
        }
    }

    async fn switch(&self, name: &str, verb: &str) -> Response<Body> {
        let Some(name) = decoded(name) else {
            return v1_error(StatusCode::BAD_REQUEST, "The listener's name is not well-formed in the path");
        };
        let (server, stops, asked) = (self.0.server.clone(), verb == "stop", name.clone());
        // Binding blocks for a moment, and waits for a reload in progress.
        let work = move || if stops { server.stop_listener(&asked) } else { server.start_listener(&asked) };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(())) => answer(&json!({"listener": name, "is_serving": !stops})),
            Ok(Err(refused)) => refuse(&refused),
            Err(err) => v1_error(StatusCode::INTERNAL_SERVER_ERROR, &err.to_string()),
        }
    }

    fn close(&self, id: &str, query: &str) -> Response<Body> {
        let listener = parameter(query, "listener").unwrap_or_default();
        let Ok(id) = id.parse() else {
            return v1_error(StatusCode::BAD_REQUEST, "A connection is named by its number on a listener");
        };
        match self.0.server.close_connection(&listener, id) {
            Ok(true) => answer(&json!({"listener": listener, "closing": id})),
            Ok(false) => v1_error(StatusCode::NOT_FOUND, "No open connection of this listener has this number"),
            Err(refused) => refuse(&refused),
        }
    }

    /// Makes new keys and certificates in the folder, and reloads them at once where they are used.
    async fn rotate(&self, query: &str) -> Response<Body> {
        let Some(folder) = self.0.certificates.clone() else {
            let why = "admin.certificates_folder names no folder of `sealway certs`: certificates are renewed where they \
                       were made, and read again when their files change";
            return v1_error(StatusCode::CONFLICT, why);
        };
        let leaves: &'static [Leaf] = match parameter(query, "leaf").as_deref() {
            None | Some("server") => &[Leaf::Server],
            Some("client") => &[Leaf::Client],
            Some("all") => &Leaf::ALL,
            Some(_) => return v1_error(StatusCode::BAD_REQUEST, "leaf is server, client or all"),
        };
        let (server, now_ms) = (self.0.server.clone(), self.0.server.now_ms());
        let work = move || {
            let renewed = certs::rotate_leaf(&folder, leaves, None, now_ms)?;
            server.look_at_files();
            Ok::<_, certs::CertsError>(renewed)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(renewed)) => answer(&json!({"renewed": renewed})),
            Ok(Err(err)) => v1_error(StatusCode::CONFLICT, &err.to_string()),
            Err(err) => v1_error(StatusCode::INTERNAL_SERVER_ERROR, &err.to_string()),
        }
    }
}

fn accepted(value: serde_json::Value) -> Response<Body> {
    let mut response = answer(&value);
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Answers with the reason that an operation was rejected.
pub(super) fn refuse(refused: &OperationError) -> Response<Body> {
    let status = match refused {
        OperationError::NoListener(_) => StatusCode::NOT_FOUND,
        OperationError::Already { .. } | OperationError::Stopping => StatusCode::CONFLICT,
        OperationError::Failed(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    v1_error(status, &refused.to_string())
}
