//! The wrangler configuration: finding it, reading it, and editing it in place.
