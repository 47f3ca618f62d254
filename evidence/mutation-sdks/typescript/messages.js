// Ignores texts for people: what an error says, beside its code.
import { declareValuePlugin, PluginKind } from "@stryker-mutator/api/plugin";

const ERRORS = { SealwayError: 1, Truncated: 1, Rejection: 1, Error: 0, TypeError: 0, RangeError: 0 };

const messages = {
  shouldIgnore(path) {
    const { parentPath } = path;
    if (!parentPath?.isNewExpression() || !parentPath.get("callee").isIdentifier()) return undefined;
    const at = ERRORS[parentPath.node.callee.name];
    if (at === undefined || parentPath.node.arguments[at] !== path.node) return undefined;
    return path.isStringLiteral() || path.isTemplateLiteral() ? "the text of an error" : undefined;
  },
};

export const strykerPlugins = [declareValuePlugin(PluginKind.Ignore, "messages", messages)];
