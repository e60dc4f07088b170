//! The picture of `zynfer quant-report`: bits per weight across, mean divergence upwards on a logarithmic scale, a labelled point for each
//! scheme. On white, so that it reads on a dark page too. It measures nothing.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width and height.
const SIZE: (u32, u32) = (860, 520);
/// Of labels.
const FONT_PX: i32 = 13;
/// Of a point.
const RADIUS: i32 = 5;
const FAMILY: &str = "sans-serif";

/// One scheme.
pub(super) struct Point {
    /// Its label.
    pub(super) name: String,
    /// A disc, else a ring.
    pub(super) filled: bool,
    pub(super) bits: f64,
    pub(super) kld: f64,
}

/// What went wrong while drawing into a string is our own.
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// The picture; `None` where no point has a place on a logarithmic scale.
pub(super) fn svg(title: &str, points: &[Point]) -> Option<String> {
    let (drawn, flat): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| point.kld > 0.0 && point.kld.is_finite());
    if drawn.is_empty() {
        return None;
    }
    let mut picture = String::new();
    draw(title, &drawn, &flat, &mut picture).expect("a string takes every picture");
    Some(picture)
}

/// The smallest and the largest of `values`.
fn ends(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
}

fn draw(title: &str, points: &[&Point], flat: &[&Point], picture: &mut String) -> Drawn<()> {
    let root = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (least_bits, most_bits) = ends(points.iter().map(|point| point.bits));
    let (least, most) = ends(points.iter().map(|point| point.kld));
    // Room for labels on the right, and whole decades are not wanted where half of one would be empty.
    let across = (least_bits - 0.5).floor()..(most_bits + 1.5).ceil();
    let whole_bits = (across.end - across.start) as usize + 1;
    let decade = |kld: f64| 10f64.powf(kld.log10().floor());
    let (bottom, top) = (least / 1.6, most * 1.6);
    // An axis with no power of ten inside would have no numbers, nor one that begins exactly at it: logarithms round.
    let bottom = if decade(top) < bottom { 0.99 * decade(bottom) } else { bottom };
    let upwards = (bottom..top).log_scale();
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FAMILY, 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(78)
        .build_cartesian_2d(across, upwards)?;
    chart
        .configure_mesh()
        .x_desc("bits per weight, scales included")
        .y_desc("mean KLD, nats (logarithmic)")
        .x_labels(whole_bits)
        .x_label_formatter(&|bits| format!("{bits:.0}"))
        .y_label_formatter(&|kld| format!("{kld:.0e}"))
        .label_style((FAMILY, 13))
        .axis_desc_style((FAMILY, 14))
        .light_line_style(RGBColor(238, 238, 238))
        .bold_line_style(RGBColor(212, 212, 212))
        .draw()?;
    let places: Vec<(i32, i32)> =
        points.iter().map(|point| chart.plotting_area().map_coordinate(&(point.bits, point.kld))).collect();
    let area = chart.plotting_area().get_pixel_range();
    for ((point, &at), label) in points.iter().zip(&places).zip(labels(points, &places, &area.1)) {
        mark(&root, point, at, &label)?;
    }
    if !flat.is_empty() {
        let names: Vec<String> = flat.iter().map(|point| format!("{} (KLD {})", point.name, point.kld)).collect();
        let text = format!("not on a logarithmic scale: {}", names.join(", "));
        let place = (SIZE.0 as i32 - 16, SIZE.1 as i32 - 10);
        root.draw(&Text::new(text, place, style(HPos::Right, &BLACK)))?;
    }
    root.present()?;
    Ok(())
}

fn style(side: HPos, color: &RGBColor) -> TextStyle<'static> {
    (FAMILY, FONT_PX).into_font().color(color).pos(Pos::new(side, VPos::Center))
}

/// Where a label stands: the middle of its left or right edge.
struct Label {
    at: (i32, i32),
    side: HPos,
}

/// One point, its label, and a line between them where the label had to move.
fn mark(root: &DrawingArea<SVGBackend<'_>, Shift>, point: &Point, at: (i32, i32), label: &Label) -> Drawn<()> {
    let color = color(&point.name);
    if label.at.1 != at.1 {
        root.draw(&PathElement::new([at, label.at], color.mix(0.5)))?;
    }
    // A ring hides the grid, and the line to its label, inside it.
    root.draw(&Circle::new(at, RADIUS, WHITE.filled()))?;
    let disc = if point.filled { color.filled() } else { color.stroke_width(2) };
    root.draw(&Circle::new(at, RADIUS, disc))?;
    root.draw(&Text::new(point.name.clone(), label.at, style(label.side, &color)))?;
    Ok(())
}

/// By the kind of code; each is dark enough for text on white.
fn color(name: &str) -> RGBColor {
    match name.split([':', ' ']).next() {
        Some("int4") => RGBColor(0x9a, 0x34, 0x12),
        Some("int4m") => RGBColor(0x6b, 0x21, 0xa8),
        Some("fp8-e4m3") => RGBColor(0x04, 0x66, 0x45),
        _ => RGBColor(0x1e, 0x40, 0xaf),
    }
}

/// A place for every label beside its point, where it covers no point and no label before it, as near as there is one.
fn labels(points: &[&Point], places: &[(i32, i32)], rows: &Range<i32>) -> Vec<Label> {
    let mut taken: Vec<[i32; 4]> =
        places.iter().map(|&(x, y)| [x - RADIUS - 1, y - RADIUS - 1, x + RADIUS + 1, y + RADIUS + 1]).collect();
    let mut labels = Vec::new();
    for (point, &(x, y)) in points.iter().zip(places) {
        // A sans-serif letter is some 0.6 of its height wide.
        let width = point.name.chars().count() as i32 * FONT_PX * 6 / 10;
        let mut choices = Vec::new();
        for step in 0..12 {
            for down in [step * 9, -step * 9] {
                choices.push((HPos::Left, x + 9 + step, y + down));
                choices.push((HPos::Right, x - 9 - step, y + down));
            }
        }
        let frame = |side: HPos, at: i32, y: i32| {
            let left = if matches!(side, HPos::Left) { at } else { at - width };
            [left, y - FONT_PX / 2 - 1, left + width, y + FONT_PX / 2 + 1]
        };
        let free = |&&(side, at, y): &&(HPos, i32, i32)| {
            let [l, t, r, b] = frame(side, at, y);
            let inside = t > rows.start && b < rows.end && l > 80 && r < SIZE.0 as i32 - 4;
            inside && taken.iter().all(|&[ol, ot, or, ob]| r <= ol || or <= l || b <= ot || ob <= t)
        };
        let &(side, at, y) = choices.iter().find(free).unwrap_or(&choices[0]);
        taken.push(frame(side, at, y));
        labels.push(Label { at: (at, y), side });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::{Point, svg};

    fn point(name: &str, bits: f64, kld: f64) -> Point {
        Point { name: name.into(), filled: true, bits, kld }
    }

    #[test]
    fn axes_have_numbers_where_points_lie_close() {
        let points = [point("int4:32", 4.51, 0.017), point("int4:64", 4.26, 0.021), point("int4:128", 4.13, 0.024)];
        let picture = svg("close", &points).expect("three points");
        let texts: Vec<&str> = picture.split("</text>").filter_map(|part| part.lines().last()).map(str::trim).collect();
        for bits in ["3", "4", "5", "6"] {
            assert_eq!(texts.iter().filter(|text| **text == bits).count(), 1, "{bits}: {picture}");
        }
        assert!(texts.contains(&"1e-2"), "{picture}");
    }

    #[test]
    fn what_a_logarithm_does_not_have_is_named_and_not_drawn() {
        let picture = svg("a & b", &[point("int8", 8.1, 2e-4), point("bf16", 16.0, 0.0)]).expect("one point");
        assert!(picture.contains("a &amp; b") && picture.contains("scale: bf16 (KLD 0)"), "{picture}");
        assert!(svg("none", &[point("bf16", 16.0, 0.0), point("odd", 4.0, f64::INFINITY)]).is_none());
        assert!(svg("none", &[]).is_none());
    }
}
