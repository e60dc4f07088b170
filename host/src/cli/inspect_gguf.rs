//! `zynfer inspect FILE.gguf`: its metadata, its tensors' types, and what compiling it would refuse. A GGUF file records no hashes, so
//! there is nothing to verify.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::artifact::LoadMode;
use crate::artifact::gguf::{Gguf, Value, kind_counts, refusals};

use super::error::CliResult;
use super::output::{Look, Ui, bytes, one_line};

pub(super) fn run(path: &Path, tensors: bool, as_json: bool, ui: &Ui) -> CliResult<()> {
    let gguf = Gguf::open(path, LoadMode::Mmap)?;
    let (refused, rounded) = refusals(&gguf);
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let needs = rounded.map(|rounded| rounded.to_string());
    if as_json {
        return ui.out_json(&describe(&gguf, &refused, needs.as_deref()));
    }
    let line =
        |name: &str, value: &str| ui.out(&format!("{} {value}\n", ui.styled(Look::Bold, &format!("{name:<20}"))));
    line("name", &gguf.name())?;
    line("kind", &format!("GGUF version {}", gguf.version()))?;
    for (file, length) in gguf.files() {
        line("file", &format!("{}, {}", file.display(), bytes(length)))?;
    }
    let kinds = kind_counts(gguf.tensors().map(|(_, tensor)| tensor.kind));
    line("tensors", &format!("{} ({kinds})", gguf.tensors().count()))?;
    for (key, value) in gguf.metadata().iter() {
        line(&one_line(key), &value.brief())?;
    }
    if tensors {
        for (_, tensor) in gguf.tensors() {
            let shape = tensor.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            ui.out(&format!(
                "{:<48} {} [{shape}] {}\n",
                one_line(&tensor.name),
                tensor.kind,
                bytes(tensor.range.len() as u64)
            ))?;
        }
    }
    for problem in &refused {
        line("refused", problem)?;
    }
    if let Some(needs) = &needs {
        line("only with --quant", needs)?;
    }
    if refused.is_empty() {
        line("compiles", if needs.is_some() { "with --quant bf16 or source" } else { "yes" })?;
    }
    Ok(())
}

fn describe(gguf: &Gguf, refused: &[String], needs: Option<&str>) -> Json {
    let metadata: Map<String, Json> =
        gguf.metadata().iter().map(|(key, value)| (key.to_owned(), plain(value))).collect();
    let tensors = gguf.tensors().map(|(file, tensor)| {
        json!({
            "name": tensor.name, "type": tensor.kind.name(), "shape": tensor.shape, "file": file,
            "offset": tensor.range.start, "bytes": tensor.range.len(),
        })
    });
    json!({
        "name": gguf.name(),
        "version": gguf.version(),
        "files": gguf.files().map(|(path, bytes)| json!({"file": path.to_string_lossy(), "bytes": bytes})).collect::<Vec<_>>(),
        "metadata": metadata,
        "tensors": tensors.collect::<Vec<_>>(),
        "refused": refused,
        "needs_quant": needs,
    })
}

/// A value as JSON; of an array only how long it is and how it begins, since a vocabulary has a hundred thousand entries.
fn plain(value: &Value) -> Json {
    match value {
        Value::Unsigned(number) => (*number).into(),
        Value::Signed(number) => (*number).into(),
        Value::F32(number) => number.to_string().parse::<f64>().ok().into(),
        Value::F64(number) => (*number).into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Numbers(list) => {
            json!({"length": list.len(), "first": list.iter().take(6).map(|v| plain(&v)).collect::<Vec<_>>()})
        }
        Value::Texts(list) => json!({"length": list.len(), "first": list.iter().take(6).collect::<Vec<_>>()}),
    }
}
