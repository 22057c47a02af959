//! Whether a value is as its schema says.

use serde_json::Value;

/// Keys of a value that are not in its schema, and those that have to be there and are not.
pub(crate) fn differences(value: &Value, schema: &Value, all: &Value) -> Vec<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let found = all.pointer(reference.trim_start_matches('#')).expect(reference);
        return differences(value, found, all);
    }
    match value {
        Value::Object(object) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let required = required.map(|key| key.as_str().unwrap());
            let missing = required.filter(|key| !object.contains_key(*key)).map(str::to_owned);
            let of = |(key, value): (&String, &Value)| match schema["properties"].get(key) {
                Some(schema) => differences(value, schema, all),
                None => vec![key.clone()],
            };
            missing.chain(object.iter().flat_map(of)).collect()
        }
        Value::Array(items) => {
            items.iter().flat_map(|item| differences(item, &schema["items"], all)).collect()
        }
        _ => Vec::new(),
    }
}
