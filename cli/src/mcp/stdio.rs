//! Serves a client on standard input and output.

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

use super::server::Server;
use super::transport::Lines;

/// Serves the client until it disconnects.
pub(crate) async fn serve(server: Server) -> Result<(), String> {
    let running = match server.serve(Lines::new(tokio::io::stdin(), tokio::io::stdout())).await {
        Ok(running) => running,
        // The client only probed the connection.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}
