//! The two streams: the answer on stdout, everything else on stderr, each with its own decision about colour. Off a terminal no
//! escape code and no carriage return is written unless the user asks for colour. Progress is a bar on a terminal and plain lines
//! elsewhere, and only for work over a second.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::error::{CliError, CliResult};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless the environment says otherwise.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How text looks where colour is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Errors.
    Red,
    /// Warnings.
    Yellow,
    /// Good news.
    Green,
    /// What is beside the point.
    Dim,
    /// Headings.
    Bold,
}

impl Look {
    fn code(self) -> &'static str {
        match self {
            Look::Red => "31",
            Look::Yellow => "33",
            Look::Green => "32",
            Look::Dim => "2",
            Look::Bold => "1",
        }
    }
}

/// Whether `TERM` says that escape codes would show as text, and nobody insists on them. `anstream` colours such a
/// terminal all the same where `CI` is set.
pub(super) fn terminal_is_dumb() -> bool {
    let says = |name: &str, wanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|value| wanted(&value));
    says("TERM", |term| term == "dumb") && !says("CLICOLOR_FORCE", |force| force != "0")
}

/// Where a command writes.
#[derive(Debug)]
pub(super) struct Ui {
    quiet: bool,
    out_color: bool,
    err_color: bool,
    out_terminal: bool,
    err_terminal: bool,
}

impl Ui {
    pub(super) fn new(color: Color, quiet: bool) -> Self {
        let decide = |automatic: anstream::ColorChoice| match color {
            Color::Auto => automatic != anstream::ColorChoice::Never && !terminal_is_dumb(),
            Color::Always => true,
            Color::Never => false,
        };
        Ui {
            quiet,
            out_color: decide(anstream::AutoStream::choice(&io::stdout())),
            err_color: decide(anstream::AutoStream::choice(&io::stderr())),
            out_terminal: io::stdout().is_terminal(),
            err_terminal: io::stderr().is_terminal(),
        }
    }

    /// The same, with nothing but errors on stderr: for what is done again and again.
    pub(super) fn hushed(&self) -> Self {
        Ui { quiet: true, ..*self }
    }

    /// Whether stdout is a terminal.
    pub(super) fn out_is_terminal(&self) -> bool {
        self.out_terminal
    }

    /// Writes a part of the answer, at once.
    pub(super) fn out(&self, text: &str) -> CliResult<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::Closed,
            _ => CliError::failed(format!("stdout: {error}")),
        })
    }

    /// Writes text a model made: on a terminal its control characters are shown, not obeyed.
    pub(super) fn out_generated(&self, text: &str) -> CliResult<()> {
        if self.out_terminal { self.out(&visible(text)) } else { self.out(text) }
    }

    /// Writes a JSON value and a line end.
    pub(super) fn out_json(&self, value: &serde_json::Value) -> CliResult<()> {
        self.out(&format!("{value}\n"))
    }

    /// `text` in a colour of stdout.
    pub(super) fn styled(&self, look: Look, text: &str) -> String {
        styled(self.out_color, look, text)
    }

    /// A line on stderr, unless `--quiet`.
    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            self.write_err(&format!("{}\n", one_line(line)));
        }
    }

    /// A line on stderr that is beside the point, unless `--quiet`.
    pub(super) fn aside(&self, line: &str) {
        if !self.quiet {
            self.write_err(&format!("{}\n", styled(self.err_color, Look::Dim, &one_line(line))));
        }
    }

    /// Something the user should know, unless `--quiet`.
    pub(super) fn note(&self, line: &str) {
        if !self.quiet {
            self.write_err(&format!("{} {}\n", styled(self.err_color, Look::Yellow, "note:"), one_line(line)));
        }
    }

    /// A piece of a model's reasoning on stderr, unless `--quiet`.
    pub(super) fn reasoning(&self, text: &str) {
        if !self.quiet && !text.is_empty() {
            let text = if self.err_terminal { visible(text) } else { text.to_string() };
            self.write_err(&styled(self.err_color, Look::Dim, &text));
        }
    }

    /// What went wrong, one line.
    pub(super) fn error(&self, line: &str) {
        self.write_err(&format!("{} {}\n", styled(self.err_color, Look::Red, "error:"), one_line(line)));
    }

    fn write_err(&self, text: &str) {
        // Nobody is left to tell that stderr is closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Progress of `what`, counted in `unit`.
    pub(super) fn progress(&self, what: &'static str, unit: Unit) -> Progress<'_> {
        let now = Instant::now();
        Progress { ui: self, what, unit, start: now, last_line: now, bar: None }
    }
}

/// What a progress counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes.
    Bytes,
    /// Tokens.
    Tokens,
}

/// Progress of one piece of work; nothing shows in its first second.
pub(super) struct Progress<'u> {
    ui: &'u Ui,
    what: &'static str,
    unit: Unit,
    start: Instant,
    last_line: Instant,
    bar: Option<ProgressBar>,
}

/// Work shorter than this shows nothing.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// Pause between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl Progress<'_> {
    /// `done` of `total` units are done.
    pub(super) fn update(&mut self, done: u64, total: u64) {
        if self.ui.quiet || self.start.elapsed() < SHOW_AFTER {
            return;
        }
        if self.ui.err_terminal && !terminal_is_dumb() {
            let (what, unit) = (self.what, self.unit);
            let bar = self.bar.get_or_insert_with(|| new_bar(what, unit));
            bar.set_length(total);
            bar.set_position(done);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let percent = (done * 100).checked_div(total).unwrap_or(100);
            self.ui.say(&format!("{}: {percent} %", self.what));
        }
    }

    /// Removes the bar; what follows stands on a clean line.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

fn new_bar(what: &'static str, unit: Unit) -> ProgressBar {
    let counts = match unit {
        Unit::Bytes => "{bytes}/{total_bytes}",
        Unit::Tokens => "{pos}/{len} tokens",
    };
    let style = ProgressStyle::with_template(&format!("{{prefix}} [{{bar:30}}] {counts} {{eta}}"));
    let bar = ProgressBar::new(0).with_prefix(what);
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn styled(color: bool, look: Look, text: &str) -> String {
    if color && !text.is_empty() { format!("\x1b[{}m{text}\x1b[0m", look.code()) } else { text.to_string() }
}

/// Names come from files and arguments: a line break or an escape code in one must neither break the line nor reach a terminal.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Control characters but line feed and tab as the pictures Unicode has for them.
fn visible(text: &str) -> String {
    let picture = |c: char| match u32::from(c) {
        code @ 0..=0x1f if c != '\n' && c != '\t' => char::from_u32(0x2400 + code).unwrap_or(c),
        0x7f => '\u{2421}',
        0x80..=0x9f => char::REPLACEMENT_CHARACTER,
        _ => c,
    };
    text.chars().map(picture).collect()
}

/// Scales included, over all weights.
pub(super) fn bits_per_weight(weight_bytes: u64, parameters: u64) -> f64 {
    8.0 * weight_bytes as f64 / parameters.max(1) as f64
}

/// `12.3 MiB`.
pub(super) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::{bytes, one_line, visible};

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(one_line("a\nb\x1b[31m\u{9b}"), "a\\nb\\u{1b}[31m\\u{9b}");
        assert_eq!(visible("a\tb\n\x1b[2J\r\u{7f}\u{9b}é"), "a\tb\n␛[2J␍␡\u{fffd}é");
    }

    #[test]
    fn sizes_read_well() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (13_910_696, "13.3 MiB"), (5 << 30, "5.0 GiB")]
        {
            assert_eq!(bytes(count), text);
        }
    }
}
