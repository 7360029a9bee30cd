use std::fmt::Write as _;

use crate::numbers::shown;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;
/// Told apart by those who see few colours, too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One line of a plot.
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A plot as SVG, with its title, a legend, and axes from zero; nothing when there is nothing to show.
pub(super) fn plot(title: &str, across: &str, up: &str, curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| curve.points.iter());
    let most = |of: fn(&(f64, f64)) -> f64| all().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let (x_most, y_most) = (most(|point| point.0), most(|point| point.1));
    if x_most <= 0.0 || y_most <= 0.0 {
        return String::new();
    }
    let x = |value: f64| LEFT + value / x_most * (WIDTH - LEFT - 8.0);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_most * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escaped(title),
        escaped(title)
    );
    let mut add = |text: String| svg.push_str(&text);
    for part in 0..=4 {
        let (fraction, x0, x1) = (f64::from(part) / 4.0, LEFT, WIDTH - 8.0);
        let at = y(y_most * fraction);
        add(format!("<line class=\"grid\" x1=\"{x0}\" x2=\"{x1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"));
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 4.0,
            at + 3.0,
            shown(y_most * fraction)
        ));
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(x_most * fraction),
            HEIGHT - BOTTOM + 12.0,
            shown(x_most * fraction)
        ));
    }
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> = curve.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        add(format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
            points.join(" ")
        ));
    }
    svg.push_str("</svg>");
    let mut legend = String::new();
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        write!(legend, "<span style=\"color:{colour}\">&#9644; {}</span> ", escaped(&curve.name))
            .expect("a string takes anything");
    }
    write!(svg, "<small>{legend}&middot; {} over {}</small></figure>", escaped(up), escaped(across))
        .expect("a string takes anything");
    svg
}

/// Text that HTML takes as text.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_stays_within_its_frame() {
        let svg = plot("a < b", "s", "1/s", &[Curve { name: "x".to_owned(), points: vec![(0.0, 0.0), (10.0, 5.0)] }]);
        assert!(svg.contains("a &lt; b") && svg.contains("56.0,166.0 512.0,8.0"), "{svg}");
        assert_eq!(plot("none", "s", "1/s", &[]), "");
    }
}
