/** The layout of small levels, by dagre. */

import { graphlib, layout, type EdgeLabel, type GraphLabel, type NodeLabel } from "@dagrejs/dagre";

import { orderOf } from "./order.js";
import { BOX_GAP, RANK_GAP, type Arrangement, type Connection, type Point, type Sized } from "./places.js";

/** Keeps ports at the borders: their edges to the border are heavier than all others. */
const HEAVY = 1000;

export function dagreLayout(boxes: readonly Sized[], connections: readonly Connection[]): Arrangement {
  const graph = new graphlib.Graph<GraphLabel, NodeLabel, EdgeLabel>({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: BOX_GAP, edgesep: 12, ranksep: RANK_GAP, marginx: 0, marginy: 0 });
  boxes.forEach(({ width, height }, index) => graph.setNode(String(index), { width, height }));
  const order = orderOf(boxes.length, connections);
  const directed = connections.map((connection) => (order.isBack(connection) ? { from: connection.to, to: connection.from } : connection));
  directed.forEach(({ from, to }, index) => graph.setEdge(String(from), String(to), { weight: 1 }, String(index)));
  addBorders(graph, boxes);
  layout(graph);
  const corners = boxes.map(({ width, height }, index) => {
    const { x = 0, y = 0 } = graph.node(String(index));
    return { x: x - width / 2, y: y - height / 2 };
  });
  const inner = directed.map(({ from, to }, index) => {
    return graph.edge(String(from), String(to), String(index)).points?.slice(1, -1) ?? [];
  });
  const everything = [...corners, ...inner.flat()];
  const [left, top] = [Math.min(...everything.map(({ x }) => x)), Math.min(...corners.map(({ y }) => y))];
  const shifted = ({ x, y }: { x: number; y: number }): { x: number; y: number } => ({ x: x - left, y: y - top });
  const places = corners.map(shifted);
  const spans = places.map(({ y }, index): Span => ({ top: y, bottom: y + (boxes[index]?.height ?? 0) }));
  const bends = inner.map((points, index) => {
    const passed = passages(points.map(shifted), spans);
    return directed[index] === connections[index] ? passed : passed.reverse();
  });
  return {
    places,
    bends,
    width: Math.max(0, ...places.map(({ x }, index) => x + (boxes[index]?.width ?? 0)), ...bends.flat().map(({ x }) => x)),
    height: Math.max(0, ...places.map(({ y }, index) => y + (boxes[index]?.height ?? 0))),
  };
}

interface Span {
  readonly top: number;
  readonly bottom: number;
}

/** Returns the points at which an edge passes beside boxes: it stays upright from their upper to their lower border. */
function passages(points: readonly Point[], spans: readonly Span[]): Point[] {
  return points.flatMap(({ x, y }) => {
    const beside = spans.filter(({ top, bottom }) => top - 1 <= y && y <= bottom + 1 && bottom - top > 1);
    if (beside.length === 0) return [];
    return [{ x, y: Math.min(...beside.map(({ top }) => top)) }, { x, y: Math.max(...beside.map(({ bottom }) => bottom)) }];
  });
}

function addBorders(graph: graphlib.Graph<GraphLabel, NodeLabel, EdgeLabel>, boxes: readonly Sized[]): void {
  for (const [rank, border] of [["first", "top"], ["last", "bottom"]] as const) {
    if (!boxes.some((box) => box.rank === rank)) continue;
    const ends = rank === "first" ? graph.sources() : graph.sinks();
    graph.setNode(border, { width: 0, height: 0 });
    const connect = (box: string, weight: number): void => {
      if (rank === "first") graph.setEdge(border, box, { weight, minlen: 1 });
      else graph.setEdge(box, border, { weight, minlen: 1 });
    };
    boxes.forEach((box, index) => {
      if (box.rank === rank) connect(String(index), HEAVY);
    });
    for (const end of ends) if (boxes[Number(end)]?.rank === null) connect(end, 0);
  }
}
