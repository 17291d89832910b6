//! The binary on projects in temporary directories: its output, and its changes to the user's files.

mod add;
mod attribute;
mod backend;
mod bindings;
mod build;
mod call;
mod check;
mod classes;
#[cfg(target_os = "linux")]
mod clients;
mod cloned;
mod common;
mod completions;
mod concurrent;
mod config;
mod containers;
mod contradictions;
mod cp;
mod crash;
mod demo;
mod deploy;
mod destroy;
mod doctor;
mod egress;
#[cfg(target_os = "linux")]
mod exec;
mod explain;
mod exports;
mod files;
mod former;
mod forms;
mod github;
mod image;
mod image_build;
mod image_store;
mod init;
mod links;
mod list;
#[cfg(target_os = "linux")]
mod log;
mod managed;
mod mcp;
mod migrate;
mod migrate_exports;
mod migrations;
mod names;
mod new;
mod ownership;
mod package;
#[cfg(target_os = "linux")]
mod pages;
mod prove;
#[cfg(target_os = "linux")]
mod ps;
mod registry;
mod remove;
mod rename;
mod rules;
#[cfg(target_os = "linux")]
mod run;
mod sandboxes;
mod schema;
#[cfg(target_os = "linux")]
mod script;
mod script_class;
mod sdk;
mod settings;
#[cfg(target_os = "linux")]
mod snapshot;
mod source;
mod storage;
mod supervisor;
mod tools;
mod trust;
mod typescript;
mod watch;
