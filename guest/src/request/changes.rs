//! Requests that are changes of files. They are written as all others, so that a new one needs no variant here.

use std::fmt;

use serde::de::value::{EnumAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use koze_protocol::Change;

use super::Request;

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Request::Change(change) => change.serialize(serializer),
            // The derived function, of the type itself.
            other => Request::serialize(other, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Request", &[], ByName)
    }
}

struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = Request;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a request")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Request, A::Error> {
        let (name, content) = access.variant::<String>()?;
        let is_change = Change::NAMES.contains(&name.as_str());
        let request = EnumAccessDeserializer::new(Named { name, content });
        if is_change {
            Change::deserialize(request).map(Request::Change)
        } else {
            // The derived function, of the type itself.
            Request::deserialize(request)
        }
    }
}

/// A variant whose name has been read.
struct Named<C> {
    name: String,
    content: C,
}

impl<'de, C: serde::de::VariantAccess<'de>> EnumAccess<'de> for Named<C> {
    type Error = C::Error;
    type Variant = C;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, C), C::Error> {
        let name: StringDeserializer<C::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.content))
    }
}
