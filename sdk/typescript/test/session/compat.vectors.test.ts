import { COMPAT } from "../vectors/compat.js";
import { runFolder } from "../vectors/folder.js";

runFolder("session", COMPAT);
