use std::fmt;

use serde::de::{self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::error::Fault;
use super::node::push_item;
use super::{Node, NodeKind, Place};
use crate::nearest::nearest;

/// Makes a value of a node.
pub(super) fn read<T: de::DeserializeOwned>(node: &Node) -> Result<T, Fault> {
    T::deserialize(At { node }).map_err(|fault| fault.0)
}

/// A fault on its way up: each level puts its key in front of the path.
#[derive(Debug)]
struct Climbing(Fault);

impl Climbing {
    /// Gives a fault that has no place yet that of `node`.
    fn at(mut self, place: Place) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    fn under(mut self, key: &str) -> Self {
        let below = std::mem::replace(&mut self.0.path, key.to_owned());
        if !below.is_empty() && !below.starts_with('[') {
            self.0.path.push('.');
        }
        self.0.path.push_str(&below);
        self
    }
}

impl fmt::Display for Climbing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Climbing {}

impl de::Error for Climbing {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        Self(Fault { place: None, path: String::new(), message, remedy: String::new() })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let fault = Self::custom(format!("unknown key `{field}`"));
        Self(fault.0.with_remedy(suggest(field, expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let fault = Self::custom(format!("`{variant}` is not known here"));
        Self(fault.0.with_remedy(suggest(variant, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        let fault = Self::custom(format!("the key `{field}` is missing"));
        Self(fault.0.with_remedy(format!("write `{field}: …`")))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::custom(format!("the key `{field}` stands here twice"))
    }
}

/// Names the nearest of what is known, or all of it.
pub(crate) fn suggest(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("write `{meant}`"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// A node that is asked for a value.
struct At<'n> {
    node: &'n Node,
}

impl At<'_> {
    fn wrong(&self, expected: &str) -> Climbing {
        let fault =
            <Climbing as de::Error>::custom(format!("{expected} is expected here, not {}", self.node.describe()));
        fault.at(self.node.place)
    }

    fn scalar(&self, expected: &str) -> Result<&str, Climbing> {
        match &self.node.kind {
            NodeKind::Scalar { text, .. } if !self.node.is_null() => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Climbing> {
        self.scalar(expected)?.trim().parse().map_err(|_| self.wrong(expected))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $expected:literal),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
            let value = self.parse($expected)?;
            visitor.$visit(value).map_err(|fault: Climbing| fault.at(self.node.place))
        })*
    };
}

impl<'de> de::Deserializer<'de> for At<'_> {
    type Error = Climbing;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        let place = self.node.place;
        let value = match &self.node.kind {
            NodeKind::Scalar { text, literal: false } => visitor.visit_str(text),
            NodeKind::Scalar { text, literal: true } => match text.as_str() {
                _ if self.node.is_null() => visitor.visit_unit(),
                "true" | "True" | "TRUE" => visitor.visit_bool(true),
                "false" | "False" | "FALSE" => visitor.visit_bool(false),
                text => match (text.parse(), text.parse(), text.parse()) {
                    (Ok(number), _, _) => visitor.visit_u64(number),
                    (_, Ok(number), _) => visitor.visit_i64(number),
                    (_, _, Ok(number)) => visitor.visit_f64(number),
                    _ => visitor.visit_str(text),
                },
            },
            NodeKind::Sequence(_) => return self.deserialize_seq(visitor),
            NodeKind::Mapping(_) => return self.deserialize_map(visitor),
        };
        value.map_err(|fault: Climbing| fault.at(place))
    }

    parsed! {
        deserialize_i8 visit_i8 "a whole number",
        deserialize_i16 visit_i16 "a whole number",
        deserialize_i32 visit_i32 "a whole number",
        deserialize_i64 visit_i64 "a whole number",
        deserialize_i128 visit_i128 "a whole number",
        deserialize_u8 visit_u8 "a whole number from 0 to 255",
        deserialize_u16 visit_u16 "a whole number from 0 to 65535",
        deserialize_u32 visit_u32 "a whole number, 0 or more",
        deserialize_u64 visit_u64 "a whole number, 0 or more",
        deserialize_u128 visit_u128 "a whole number, 0 or more",
        deserialize_f32 visit_f32 "a number",
        deserialize_f64 visit_f64 "a number",
        deserialize_char visit_char "one letter",
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        match self.scalar("true or false")? {
            "true" | "True" | "TRUE" => visitor.visit_bool(true),
            "false" | "False" | "FALSE" => visitor.visit_bool(false),
            _ => Err(self.wrong("true or false")),
        }
        .map_err(|fault: Climbing| fault.at(self.node.place))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        let text = self.scalar("a text")?;
        visitor.visit_str(text).map_err(|fault: Climbing| fault.at(self.node.place))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        if self.node.is_null() { visitor.visit_unit() } else { Err(self.wrong("nothing")) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Climbing> {
        let place = self.node.place;
        visitor.visit_newtype_struct(self).map_err(|fault| fault.at(place))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        let NodeKind::Sequence(items) = &self.node.kind else { return Err(self.wrong("a list")) };
        visitor.visit_seq(Items { items: items.iter(), number: 0 }).map_err(|fault| fault.at(self.node.place))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Climbing> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Climbing> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Climbing> {
        let entries = match &self.node.kind {
            NodeKind::Mapping(entries) => entries.as_slice(),
            // A key with nothing below it: all that is optional is left out.
            _ if self.node.is_null() => &[],
            _ => return Err(self.wrong("a mapping")),
        };
        visitor.visit_map(Entries { entries: entries.iter(), value: None }).map_err(|fault| fault.at(self.node.place))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Climbing> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Climbing> {
        let place = self.node.place;
        let variant = match &self.node.kind {
            NodeKind::Scalar { text, .. } if !self.node.is_null() => Variant { name: text, place, value: None },
            NodeKind::Mapping(entries) if entries.len() == 1 => {
                Variant { name: &entries[0].1, place: entries[0].0, value: Some(&entries[0].2) }
            }
            _ => return Err(self.wrong("one name, or a mapping with one key")),
        };
        visitor.visit_enum(variant).map_err(|fault| fault.at(place))
    }

    forward_to_deserialize_any! { bytes byte_buf unit_struct identifier ignored_any }
}

struct Items<'n> {
    items: std::slice::Iter<'n, Node>,
    number: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Climbing;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Climbing> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let mut key = String::new();
        push_item(&mut key, self.number);
        self.number += 1;
        seed.deserialize(At { node }).map(Some).map_err(|fault| fault.at(node.place).under(&key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'n> {
    entries: std::slice::Iter<'n, (Place, String, Node)>,
    value: Option<(&'n str, &'n Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Climbing;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Climbing> {
        let Some((place, key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        let asked: de::value::StrDeserializer<'_, Climbing> = key.as_str().into_deserializer();
        seed.deserialize(asked).map(Some).map_err(|fault| fault.at(*place).under(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Climbing> {
        let (key, node) = self.value.take().expect("a value is asked for after its key");
        seed.deserialize(At { node }).map_err(|fault| fault.at(node.place).under(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

struct Variant<'n> {
    name: &'n str,
    place: Place,
    value: Option<&'n Node>,
}

impl<'de, 'n> EnumAccess<'de> for Variant<'n> {
    type Error = Climbing;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Climbing> {
        let asked: de::value::StrDeserializer<'_, Climbing> = self.name.into_deserializer();
        let value = seed.deserialize(asked).map_err(|fault| fault.at(self.place))?;
        Ok((value, self))
    }
}

impl Variant<'_> {
    fn below(&self) -> Result<At<'_>, Climbing> {
        let missing = || {
            let fault = <Climbing as de::Error>::custom(format!("`{}` needs a value", self.name)).at(self.place);
            Climbing(fault.0.with_remedy(format!("write `{}: …`", self.name)))
        };
        self.value.map(|node| At { node }).ok_or_else(missing)
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Climbing;

    fn unit_variant(self) -> Result<(), Climbing> {
        match self.value {
            Some(node) if !node.is_null() => Err(At { node }.wrong("nothing").under(self.name)),
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Climbing> {
        seed.deserialize(self.below()?).map_err(|fault| fault.under(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Climbing> {
        de::Deserializer::deserialize_tuple(self.below()?, length, visitor).map_err(|fault| fault.under(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Climbing> {
        de::Deserializer::deserialize_map(self.below()?, visitor).map_err(|fault| fault.under(self.name))
    }
}
