//! What is found in a configuration.
