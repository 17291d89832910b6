//! What `koze dev` and `koze deploy` put around wrangler.
//!
//! | module | job |
//! |---|---|
//! | [`wrangler`] | the program: whether it and what a build of the Worker needs are there, and how it is started |
//! | [`config`] | the configuration of a local run, made of the project's |
//! | [`stage`] | the directory of a local run: configuration, entry, the base of the classes |
//! | [`secrets`] | where a Worker's secrets are in development |
//! | [`environment`] | which environment wrangler takes where nobody names one |
//! | [`login`] | whether wrangler has a login at Cloudflare |
//! | [`dotenv`] | files such as `.env` |
//! | [`token`] | the bearer token of a local run, where the project has none |
//! | [`heard`] | a program whose errors are shown as they come, and kept |
//! | [`refusal`] | what wrangler refuses, in koze's words |
//! | [`guard`] | a process that ends all that wrangler has started, however koze ends |

pub mod config;
pub mod dotenv;
pub mod environment;
#[cfg(target_os = "linux")]
pub mod guard;
pub mod heard;
pub mod login;
pub mod refusal;
pub mod secrets;
#[cfg(target_os = "linux")]
pub mod stage;
#[cfg(target_os = "linux")]
pub mod token;
pub mod wrangler;
