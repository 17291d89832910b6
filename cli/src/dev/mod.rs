//! The part of `koze dev` and `koze deploy` around wrangler.
//!
//! | module | job |
//! |---|---|
//! | [`wrangler`] | checks that wrangler and the build tools of the Worker are installed, and starts wrangler |
//! | [`config`] | derives the configuration of a local run from the project's |
//! | [`stage`] | writes the directory of a local run: configuration, entry point, base of the classes |
//! | [`secrets`] | finds a Worker's secrets in development |
//! | [`environment`] | determines the environment that wrangler selects by default |
//! | [`login`] | detects whether wrangler is logged in to Cloudflare |
//! | [`dotenv`] | parses files such as `.env` |
//! | [`token`] | stores the bearer token of a local run if the project has none |
//! | [`tee`] | runs a program, shows its standard error and keeps the end of it |
//! | [`wrangler_errors`] | explains wrangler's errors in terms of the project |
//! | [`guard`] | kills all descendants of wrangler, however koze ends |

pub mod config;
pub mod dotenv;
pub mod environment;
#[cfg(namespaces)]
pub mod guard;
pub mod login;
pub mod secrets;
#[cfg(namespaces)]
pub mod stage;
pub mod tee;
#[cfg(unix)]
pub mod token;
pub mod wrangler;
pub mod wrangler_errors;
