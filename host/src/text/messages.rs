//! A chat request as it comes from outside (JSON), checked and brought to the shape chat templates expect. A template answers odd
//! messages by dropping them or with Python's words; here each of them is one clear error that names the place. Nothing is rendered
//! here and no text is changed.

use serde_json::{Map, Value};

use super::{TextError, TextResult};

/// Roles a template knows; `developer` is written `system`.
const ROLES: &str = "system, developer, user, assistant, tool";

/// What a chat template is rendered from.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// Messages with string contents and known roles; not empty.
    pub messages: Vec<Value>,
    /// Tools the model may call, as the request describes them.
    pub tools: Option<Vec<Value>>,
    /// Whether the prompt ends with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Further variables of the template, `enable_thinking` among them.
    pub variables: Map<String, Value>,
}

impl ChatRequest {
    /// A request of one user message, with the opening of the assistant's turn.
    pub fn user(text: &str) -> Self {
        ChatRequest {
            messages: vec![serde_json::json!({"role": "user", "content": text})],
            tools: None,
            add_generation_prompt: true,
            variables: Map::new(),
        }
    }

    /// Reads `{"messages": […], "tools": […], "add_generation_prompt": true, "enable_thinking": …, "chat_template_kwargs": {…}}`.
    /// `add_generation_prompt` is true unless the request says otherwise; both switches may stand in either place.
    ///
    /// # Errors
    /// [`TextError::Request`] with the index and type of what is wrong.
    pub fn from_json(request: &Value) -> TextResult<Self> {
        let Value::Object(request) = request else {
            return Err(wrong(format!("the request must be an object with \"messages\", found {}", kind(request))));
        };
        for key in request.keys() {
            if !["messages", "tools", "add_generation_prompt", "enable_thinking", "chat_template_kwargs"]
                .contains(&key.as_str())
            {
                return Err(wrong(format!("unknown field {key:?}")));
            }
        }
        let messages = match request.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            Some(Value::Array(_)) => return Err(wrong("messages: at least one message is needed, found 0".into())),
            Some(other) => return Err(wrong(format!("messages must be an array, found {}", kind(other)))),
            None => return Err(wrong("messages: missing".into())),
        };
        let messages = messages
            .iter()
            .enumerate()
            .map(|(index, message)| check_message(&format!("messages[{index}]"), message))
            .collect::<TextResult<_>>()?;
        let mut variables = match request.get("chat_template_kwargs") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(variables)) => variables.clone(),
            Some(other) => return Err(wrong(format!("chat_template_kwargs must be an object, found {}", kind(other)))),
        };
        for reserved in ["messages", "tools"] {
            if variables.contains_key(reserved) {
                return Err(wrong(format!(
                    "chat_template_kwargs must not hold {reserved:?}; it is a field of the request"
                )));
            }
        }
        let thinking = switch(request, &variables, "enable_thinking")?;
        let generation = switch(request, &variables, "add_generation_prompt")?;
        variables.remove("add_generation_prompt");
        if let Some(thinking) = thinking {
            variables.insert("enable_thinking".into(), Value::Bool(thinking));
        }
        Ok(ChatRequest {
            messages,
            tools: check_tools(request.get("tools"))?,
            add_generation_prompt: generation.unwrap_or(true),
            variables,
        })
    }
}

/// A boolean that may be given at the top or among the template's variables, not differently in both. A template takes anything
/// but the boolean for its default, so anything else is refused rather than misunderstood.
fn switch(request: &Map<String, Value>, variables: &Map<String, Value>, name: &str) -> TextResult<Option<bool>> {
    let read = |place: String, value: Option<&Value>| match value {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(wrong(format!("{place} must be true or false, found {}", shown(other)))),
    };
    let top = read(name.to_string(), request.get(name))?;
    let variable = read(format!("chat_template_kwargs.{name}"), variables.get(name))?;
    match (top, variable) {
        (Some(top), Some(variable)) if top != variable => {
            Err(wrong(format!("{name} is {top}, but chat_template_kwargs.{name} is {variable}")))
        }
        (top, variable) => Ok(top.or(variable)),
    }
}

fn check_tools(tools: Option<&Value>) -> TextResult<Option<Vec<Value>>> {
    match tools {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(tools)) => match tools.iter().position(|tool| !tool.is_object()) {
            Some(index) => Err(wrong(format!("tools[{index}] must be an object, found {}", kind(&tools[index])))),
            None => Ok(Some(tools.clone())),
        },
        Some(other) => Err(wrong(format!("tools must be an array, found {}", kind(other)))),
    }
}

fn check_message(place: &str, message: &Value) -> TextResult<Value> {
    let Value::Object(message) = message else {
        return Err(wrong(format!("{place} must be an object, found {}", kind(message))));
    };
    let mut message = message.clone();
    let role = match message.get("role") {
        Some(Value::String(role)) => role.clone(),
        Some(other) => return Err(wrong(format!("{place}.role must be a string, found {}", kind(other)))),
        None => return Err(wrong(format!("{place}.role: missing (one of {ROLES})"))),
    };
    match role.as_str() {
        "developer" => {
            message.insert("role".into(), "system".into());
        }
        "system" | "user" | "assistant" | "tool" => {}
        unknown => return Err(wrong(format!("{place}.role: unknown role {unknown:?} (one of {ROLES})"))),
    }
    let content = match message.get("content") {
        Some(Value::String(content)) => content.clone(),
        Some(Value::Null) => String::new(),
        Some(Value::Array(parts)) => join_parts(place, parts)?,
        Some(other) => {
            return Err(wrong(format!(
                "{place}.content must be a string, null or an array of parts, found {}",
                kind(other)
            )));
        }
        None if role == "assistant"
            && (message.contains_key("tool_calls") || message.contains_key("reasoning_content")) =>
        {
            String::new()
        }
        None => return Err(wrong(format!("{place}.content: missing"))),
    };
    message.insert("content".into(), content.into());
    if let Some(reasoning) = message.get("reasoning_content")
        && !(reasoning.is_string() || reasoning.is_null())
    {
        return Err(wrong(format!("{place}.reasoning_content must be a string or null, found {}", kind(reasoning))));
    }
    check_tool_calls(place, message.get("tool_calls"))?;
    Ok(Value::Object(message))
}

fn join_parts(place: &str, parts: &[Value]) -> TextResult<String> {
    let mut content = String::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        let Value::Object(part) = part else {
            return Err(wrong(format!("{place} must be an object, found {}", kind(part))));
        };
        match part.get("type") {
            Some(Value::String(kind)) if kind == "text" => {}
            Some(other) => {
                return Err(wrong(format!("{place}: a part of type {} is not supported, only \"text\"", shown(other))));
            }
            None => return Err(wrong(format!("{place}.type: missing"))),
        }
        match part.get("text") {
            Some(Value::String(text)) => content.push_str(text),
            Some(other) => return Err(wrong(format!("{place}.text must be a string, found {}", kind(other)))),
            None => return Err(wrong(format!("{place}.text: missing"))),
        }
    }
    Ok(content)
}

fn check_tool_calls(place: &str, calls: Option<&Value>) -> TextResult<()> {
    let calls = match calls {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(calls)) => calls,
        Some(other) => return Err(wrong(format!("{place}.tool_calls must be an array, found {}", kind(other)))),
    };
    for (index, call) in calls.iter().enumerate() {
        let place = format!("{place}.tool_calls[{index}]");
        let function = call.get("function").unwrap_or(call);
        if !function.get("name").is_some_and(Value::is_string) {
            return Err(wrong(format!("{place}.function.name must be a string")));
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A scalar as it stands, a container by its kind: an error stays one short line.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_string(),
        Value::String(text) if text.chars().count() > 40 => format!("{:?}…", text.chars().take(40).collect::<String>()),
        scalar => scalar.to_string(),
    }
}

fn wrong(reason: String) -> TextError {
    TextError::Request(reason)
}
