//! The checkpoint's own chat template (Jinja), rendered as transformers renders it, and the ids of what it renders. There is no
//! built-in format to fall back to: a template that does not compile or raises is an error with its line.
//!
//! **No text of a message can become a control token.** The template is compiled twice: as it is, and with every control token that
//! its own source writes out replaced by a private-use character ([`marks`]). Rendering the second one shows which control tokens
//! come from the template; everything between them is encoded as text. If putting the tokens back does not give the first
//! rendering, or if a token could only have been put together from parts, the render is refused rather than guessed.

mod marks;
mod python;

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind};
use serde_json::Map;

use self::marks::Marks;
use super::tokenizer::Span;
use super::{ChatRequest, TextError, TextResult, Tokenizer};

/// Name under which the template is known to the engine, and so the one its errors name.
const NAME: &str = "chat_template";

/// Values of `bos_token`, `eos_token`, … that tokenizer_config.json gives to templates, by name.
pub type SpecialStrings = BTreeMap<String, String>;

/// A rendered request and its ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What the template says, byte for byte.
    pub text: String,
    /// Its ids: the template's control tokens, and text as text.
    pub ids: Vec<u32>,
}

/// A compiled chat template, bound to the control tokens of one tokenizer.
pub struct ChatTemplate {
    source: String,
    plain: Environment<'static>,
    marked: Environment<'static>,
    marks: Marks,
    special_strings: SpecialStrings,
}

impl ChatTemplate {
    /// Compiles `source`. `special_strings` become variables of the template, as in transformers.
    ///
    /// # Errors
    /// [`TextError::Template`] with the line if the source is not valid.
    pub fn new(source: &str, tokenizer: &Tokenizer, special_strings: SpecialStrings) -> TextResult<Self> {
        let tokens = tokenizer.added_tokens().iter().map(|token| token.content.clone()).collect();
        let marks = Marks::new(tokens, &[source])?;
        Ok(ChatTemplate {
            plain: compile(source.to_string())?,
            marked: compile(marks.mark_source(source))?,
            source: source.to_string(),
            marks,
            special_strings,
        })
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the source mentions the variable `name`, for example `enable_thinking`.
    pub fn mentions(&self, name: &str) -> bool {
        self.source.contains(name)
    }

    /// Renders a checked request to text.
    ///
    /// # Errors
    /// [`TextError::Template`] with the line if the template raises.
    pub fn render(&self, request: &ChatRequest) -> TextResult<String> {
        self.render_variables(&variables(request))
    }

    /// Renders with exactly these variables (and the special strings), without looking at them.
    ///
    /// # Errors
    /// [`TextError::Template`] with the line if the template raises.
    pub fn render_variables(&self, variables: &Map<String, serde_json::Value>) -> TextResult<String> {
        render(&self.plain, variables, &self.special_strings, |text| text.to_string())
    }

    /// Renders a checked request and encodes it; `tokenizer` must be the one given to [`ChatTemplate::new`].
    ///
    /// # Errors
    /// [`TextError::Template`] if the template raises, or if its control tokens cannot be told from the messages' text.
    pub fn encode(&self, tokenizer: &Tokenizer, request: &ChatRequest) -> TextResult<Prompt> {
        let variables = variables(request);
        let text = self.render_variables(&variables)?;
        let given = serde_json::Value::Object(variables.clone()).to_string();
        let ids = if self.marks.are_free_in(&given) {
            self.encode_marked(tokenizer, &self.marks, &self.marked, &variables, &text)?
        } else {
            // The messages hold the very characters that serve as marks: take others for this one request.
            let marks = Marks::new(self.marks.tokens().to_vec(), &[&self.source, &given])?;
            let marked = compile(marks.mark_source(&self.source))?;
            self.encode_marked(tokenizer, &marks, &marked, &variables, &text)?
        };
        Ok(Prompt { text, ids })
    }

    fn encode_marked(
        &self,
        tokenizer: &Tokenizer,
        marks: &Marks,
        environment: &Environment<'static>,
        variables: &Map<String, serde_json::Value>,
        text: &str,
    ) -> TextResult<Vec<u32>> {
        let ambiguous = |detail: &str| {
            TextError::Template(format!(
                "control tokens of the template cannot be told from the text of the messages: {detail}"
            ))
        };
        let rendered = render(environment, variables, &self.special_strings, |text| marks.mark_text(text))?;
        if marks.unmark(&rendered) != text {
            return Err(ambiguous("its output depends on how its own tokens are spelled"));
        }
        let spans = marks.spans(&rendered);
        let in_messages = variables.values().any(|value| any_string(value, &|text| tokenizer.contains_added(text)));
        if !in_messages {
            let whole = |span: &Span<'_>| matches!(span, Span::Text(text) if tokenizer.contains_added(text));
            if spans.iter().any(whole) {
                return Err(ambiguous("one of them is put together from parts"));
            }
        }
        tokenizer.encode_spans(&spans)
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("source_bytes", &self.source.len()).finish_non_exhaustive()
    }
}

/// The variables transformers' `apply_chat_template` defines, absent ones as `none`.
fn variables(request: &ChatRequest) -> Map<String, serde_json::Value> {
    let mut variables = request.variables.clone();
    variables.insert("messages".into(), serde_json::Value::Array(request.messages.clone()));
    variables.insert("tools".into(), request.tools.clone().map_or(serde_json::Value::Null, serde_json::Value::Array));
    variables.entry("documents").or_insert(serde_json::Value::Null);
    variables.insert("add_generation_prompt".into(), request.add_generation_prompt.into());
    variables
}

/// Whether `found` holds for any string of `value`, keys included.
fn any_string(value: &serde_json::Value, found: &dyn Fn(&str) -> bool) -> bool {
    match value {
        serde_json::Value::String(text) => found(text),
        serde_json::Value::Array(items) => items.iter().any(|item| any_string(item, found)),
        serde_json::Value::Object(fields) => fields.iter().any(|(key, value)| found(key) || any_string(value, found)),
        _ => false,
    }
}

/// An environment set up as transformers sets up jinja2.
fn compile(source: String) -> TextResult<Environment<'static>> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|error| template_error(&error))?;
    environment.set_syntax(syntax);
    environment.set_debug(false);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(|out, _, value| python::write_value(out, value));
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", python::tojson);
    environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", python::strftime_now);
    environment.add_template_owned(NAME, source).map_err(|error| template_error(&error))?;
    Ok(environment)
}

fn render(
    environment: &Environment<'static>,
    variables: &Map<String, serde_json::Value>,
    special_strings: &SpecialStrings,
    special: impl Fn(&str) -> String,
) -> TextResult<String> {
    let special = special_strings.iter().map(|(name, text)| (Value::from(name.as_str()), Value::from(special(text))));
    // Variables of the request come last, so they win, as keyword arguments do in transformers.
    let given = variables.iter().map(|(name, value)| (Value::from(name.as_str()), python::from_json(value)));
    let context = Value::from_pairs(special.chain(given));
    let template = environment.get_template(NAME).map_err(|error| template_error(&error))?;
    template.render(context).map_err(|error| template_error(&error))
}

fn template_error(error: &minijinja::Error) -> TextError {
    let line = error.line().map_or_else(String::new, |line| format!("line {line}: "));
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    TextError::Template(format!("{line}{}", detail.split_whitespace().collect::<Vec<_>>().join(" ")))
}
