//! What the emulator's checks found, for `zynfer emulate`: text on stderr, objects under `findings` with `--json`. What a finding means
//! is the emulator's to say.

use emulator::fault::Access;
use emulator::watch::Space;
use emulator::watch::finding::{Finding, Place, Touched};
use serde_json::{Value, json};

/// All of them as JSON objects.
pub(super) fn objects(findings: &[Finding]) -> Value {
    findings.iter().map(object).collect()
}

/// `1 finding`, `2 findings`.
pub(super) fn count(findings: &[Finding]) -> String {
    format!("{} finding{}", findings.len(), if findings.len() == 1 { "" } else { "s" })
}

fn object(finding: &Finding) -> Value {
    let mut object = json!({
        "class": finding.class.name(), "check": finding.class.check(), "message": finding.message,
        "kernel": finding.kernel, "workgroup": finding.workgroup, "wave": finding.wave, "lane": finding.lane,
        "place": place(&finding.place), "count": finding.count,
    });
    if let Some(touched) = &finding.touched {
        object["access"] = access(touched);
    }
    if let Some(other) = &finding.other {
        object["other"] = json!({
            "what": other.what, "workgroup": other.workgroup, "wave": other.wave, "place": place(&other.place),
        });
    }
    object
}

fn place(place: &Place) -> Value {
    let source = place.source.as_ref().map(|source| json!({"file": source.file, "line": source.line}));
    json!({"pc": place.pc, "offset": place.offset, "instruction": place.text, "source": source})
}

fn access(touched: &Touched) -> Value {
    let space = match touched.space {
        Space::Global => "global",
        Space::Lds => "lds",
        Space::Scratch => "scratch",
    };
    let kind = match touched.access {
        Access::Load => "load",
        Access::Store => "store",
        Access::Atomic => "atomic",
    };
    let allocation = touched
        .allocation
        .map(|allocation| json!({"base": allocation.base, "bytes": allocation.bytes, "live": allocation.live}));
    json!({
        "kind": kind, "space": space, "address": touched.address, "bytes": touched.bytes, "allocation": allocation,
    })
}
